//! A drawing with a time axis: margins, a grid, bands where there were faults, and whatever a chart adds. Sizes
//! are in pixels. Everything that comes from a run is escaped.

use std::fmt::Write as _;

use crate::history::Fault;

const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 36.0;

/// A chart under construction.
pub struct Chart {
    body: String,
    width: f64,
    height: f64,
    /// Seconds from the left edge to the right one.
    seconds: f64,
}

/// What can stand in text and in attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Seconds of a moment of the history's clock.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Chart {
    /// `plot` is the width and height of what lies between the axes.
    pub fn new(title: &str, plot: (f64, f64), seconds: f64) -> Self {
        let (width, height) = (plot.0 + LEFT + RIGHT, plot.1 + TOP + BOTTOM);
        let mut chart = Self { body: String::new(), width, height, seconds: seconds.max(1.0) };
        chart.text((LEFT, 18.0), title, "font-weight='bold'");
        chart
    }

    pub fn x(&self, seconds: f64) -> f64 {
        LEFT + (self.width - LEFT - RIGHT) * (seconds / self.seconds).clamp(0.0, 1.0)
    }

    /// `share` of the height, from the bottom.
    pub fn y(&self, share: f64) -> f64 {
        self.height - BOTTOM - (self.height - TOP - BOTTOM) * share.clamp(0.0, 1.0)
    }

    /// From the top of the plot.
    pub fn row(&self, pixels: f64) -> f64 {
        TOP + pixels
    }

    /// Seconds along the lower edge.
    pub fn time_axis(&mut self) {
        let steps = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0];
        let wanted = self.seconds * 90.0 / (self.width - LEFT - RIGHT);
        let step = steps.into_iter().find(|step| *step >= wanted).unwrap_or(1_200.0);
        let mut at = 0.0;
        while at <= self.seconds {
            let x = self.x(at);
            self.line((x, self.y(0.0)), (x, self.y(1.0)), "#e4e4e4");
            self.text((x, self.height - 16.0), &format!("{at} s"), "text-anchor='middle' fill='#666'");
            at += step;
        }
    }

    /// A mark of the vertical axis.
    pub fn level(&mut self, share: f64, label: &str) {
        let y = self.y(share);
        self.line((LEFT, y), (self.width - RIGHT, y), "#e4e4e4");
        self.text((LEFT - 6.0, y + 4.0), label, "text-anchor='end' fill='#666'");
    }

    /// Where there were faults, with their names.
    pub fn faults(&mut self, faults: &[Fault]) {
        for (at, fault) in faults.iter().enumerate() {
            let from = self.x(seconds(fault.began_ns));
            let until = fault.healed_ns.map_or(self.width - RIGHT, |healed| self.x(seconds(healed)));
            let name = format!("{} {}", kind(fault), fault.node);
            let (top, height) = (TOP, self.height - TOP - BOTTOM);
            let width = (until - from).max(1.5);
            let healed =
                fault.healed_ns.map_or("never healed".to_owned(), |ns| format!("until {:.2} s", seconds(ns)));
            let title = format!("{name}: from {:.2} s, {healed}", seconds(fault.began_ns));
            self.area((from, top), (width, height), "#d62728", 0.13, &title);
            // Names of neighbours would lie upon each other.
            let level = TOP - 4.0 - 11.0 * (at % 2) as f64;
            self.text((from, level), &name, "font-size='9' fill='#b01c1c'");
        }
    }

    pub fn area(&mut self, at: (f64, f64), size: (f64, f64), fill: &str, opacity: f64, title: &str) {
        let _ = writeln!(
            self.body,
            "<rect x='{:.1}' y='{:.1}' width='{:.1}' height='{:.1}' fill='{fill}' fill-opacity='{opacity}'><title>{}</title></rect>",
            at.0,
            at.1,
            size.0,
            size.1,
            escape(title)
        );
    }

    pub fn dot(&mut self, at: (f64, f64), fill: &str, title: &str) {
        let _ = writeln!(
            self.body,
            "<circle cx='{:.1}' cy='{:.1}' r='1.8' fill='{fill}' fill-opacity='0.7'><title>{}</title></circle>",
            at.0,
            at.1,
            escape(title)
        );
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str) {
        let _ = writeln!(
            self.body,
            "<line x1='{:.1}' y1='{:.1}' x2='{:.1}' y2='{:.1}' stroke='{stroke}'/>",
            from.0, from.1, to.0, to.1
        );
    }

    pub fn path(&mut self, points: &[(f64, f64)], stroke: &str) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        let _ = writeln!(
            self.body,
            "<polyline points='{points}' fill='none' stroke='{stroke}' stroke-width='1.5'/>"
        );
    }

    pub fn text(&mut self, at: (f64, f64), text: &str, attributes: &str) {
        let _ =
            writeln!(self.body, "<text x='{:.1}' y='{:.1}' {attributes}>{}</text>", at.0, at.1, escape(text));
    }

    /// Colours and what they mean, in the upper right corner.
    pub fn legend(&mut self, of: &[(&str, &str)]) {
        let mut x = self.width - RIGHT;
        for (name, colour) in of.iter().rev() {
            x -= 7.0 * name.len() as f64 + 22.0;
            self.area((x, 9.0), (10.0, 10.0), colour, 1.0, name);
            self.text((x + 14.0, 18.0), name, "");
        }
    }

    pub fn finish(self) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0}' height='{height:.0}' viewBox='0 0 {width:.0} {height:.0}' \
             font-family='sans-serif' font-size='11'>\n<rect width='100%' height='100%' fill='white'/>\n{}</svg>\n",
            self.body
        )
    }
}

/// As it is written everywhere.
pub fn kind(fault: &Fault) -> String {
    serde_json::to_value(fault.kind)
        .ok()
        .and_then(|kind| kind.as_str().map(str::to_owned))
        .unwrap_or_default()
}
