//! Breadth first through every state within bounds, so that what is not found is not there within them.
