//! REST, version 1: one module a resource; what requests share is in `extract` (in), `answer` and `problem`
//! (out), `read` and `write` (the state), and `edge` (the layer round everything).

mod aggregates;
mod answer;
mod candidates;
mod cluster;
mod console;
mod convert;
mod drain;
mod dry_run;
mod edge;
mod events;
mod explain;
mod extract;
mod flavors;
mod groups;
mod health;
mod images;
mod metrics;
mod n_plus_one;
mod nodes;
pub mod openapi;
mod page;
mod policy;
mod problem;
mod project;
mod projects;
mod proxy;
mod quotas;
mod range;
mod read;
mod rebalance;
mod replay;
mod scheduler;
mod vm_create;
mod vm_keep;
mod vms;
mod volumes;
mod what_if;
mod write;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::{Extension, Router, middleware};
use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

/// On whose behalf requests act, until there are users.
const ACTOR: &str = "admin";

/// Every path of the REST API.
pub fn router(app: Shared) -> Router {
    let traffic = Arc::new(metrics::Traffic::default());
    let (router, document) = routes().split_for_parts();
    router
        .merge(openapi::route(&openapi::complete(document)))
        .fallback(|uri: Uri| async move { problem::no_such_route(uri.path()) })
        .layer(Extension(Arc::clone(&traffic)))
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(traffic, edge::edge))
        .with_state(app)
}

/// The OpenAPI document of [`router`].
pub fn document() -> utoipa::openapi::OpenApi {
    openapi::complete(routes().into_openapi())
}

fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(openapi::base())
        .merge(vms::routes())
        .merge(vm_keep::routes())
        .merge(explain::routes())
        .merge(replay::routes())
        .merge(console::routes())
        .merge(nodes::routes())
        .merge(drain::routes())
        .merge(aggregates::routes())
        .merge(groups::routes())
        .merge(scheduler::routes())
        .merge(projects::routes())
        .merge(quotas::routes())
        .merge(candidates::routes())
        .merge(what_if::routes())
        .merge(n_plus_one::routes())
        .merge(rebalance::routes())
        .merge(volumes::routes())
        .merge(flavors::routes())
        .merge(images::routes())
        .merge(cluster::routes())
        .merge(policy::routes())
        .merge(events::routes())
        .merge(health::routes())
}
