//! One file a command, `commands/<noun>/<verb>.rs`: it takes what was typed, asks the API, prints the
//! outcome. What every command needs is in [`Context`].

mod aggregate;
mod az;
mod check;
mod cluster;
mod completion;
mod dev;
mod events;
mod flavor;
mod group;
mod image;
mod inventory;
mod node;
mod project;
mod quota;
mod scheduler;
mod vm;
mod volume;

use std::path::PathBuf;

use holm_api::ProjectListQuery;
use serde::de::DeserializeOwned;

use crate::args::project::ListOfProject;
use crate::args::{AzVerb, Cli, ClusterVerb, Format, Global, Noun};
use crate::client::{Client, Endpoint};
use crate::error::Error;
use crate::output::record::{DEFAULT_PROJECT, name_among_all};
use crate::output::{Output, Record};

/// What every command needs.
pub struct Context {
    pub client: Client,
    pub output: Output,
    /// The project that is meant.
    pub project: String,
}

impl Context {
    fn new(global: &Global) -> Result<Self, Error> {
        let from_env = std::env::var("HOLM_ENDPOINTS").unwrap_or_default();
        let socket = std::env::var_os("HOLM_SOCKET").filter(|path| !path.is_empty()).map(PathBuf::from);
        let endpoints = Endpoint::choose(&global.endpoints, &from_env, socket.as_deref())?;
        let project = chosen_project(global.project.as_deref(), std::env::var("HOLM_PROJECT").ok())?;
        let client = Client::new(endpoints).with_stale(global.stale).with_project(&project);
        Ok(Self { client, output: Output::new(global.output), project })
    }

    /// Prints what is at `path`, of the project that is meant or of all; `names` gives a record's project and name.
    async fn list_of_project<T: Record + DeserializeOwned>(
        &self,
        path: &str,
        typed: &ListOfProject,
        names: fn(&mut T) -> (&str, &mut String),
    ) -> Result<(), Error> {
        let query = ProjectListQuery { all_projects: typed.all_projects, ..ProjectListQuery::default() };
        let mut records = self.client.list(path, &query).await?;
        self.tell_apart(typed.all_projects, &mut records, names);
        self.output.list(&records)
    }

    /// In a table of several projects, names say whose they are.
    fn tell_apart<T>(&self, of_all: bool, records: &mut [T], names: fn(&mut T) -> (&str, &mut String)) {
        if of_all && self.output.format == Format::Table {
            for (project, name) in records.iter_mut().map(names) {
                *name = name_among_all(project, name);
            }
        }
    }
}

/// The project that was typed, else that of the environment, else `default`.
fn chosen_project(typed: Option<&str>, from_env: Option<String>) -> Result<String, Error> {
    let (source, name) = match (typed, from_env.filter(|name| !name.is_empty())) {
        (Some(typed), _) => ("--project", typed.to_owned()),
        (None, Some(name)) => ("HOLM_PROJECT", name),
        (None, None) => return Ok(DEFAULT_PROJECT.to_owned()),
    };
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(name);
    }
    let hint = "`holm project list` shows what there is";
    Err(Error::usage(format!("{source}: {name:?} is not the name of a project"), hint))
}

/// Runs one command.
///
/// # Errors
/// Whatever the operator has to know; its exit code is [`Error::exit_code`].
pub async fn run(cli: Cli) -> Result<(), Error> {
    let global = cli.global;
    if global.stale && !cli.noun.may_be_stale() {
        let hint = "it is for `list`, `show`, `explain` and `cluster status`";
        return Err(Error::usage("--stale does not fit this command", hint));
    }
    // These need no cluster, and work without one.
    match cli.noun {
        Noun::Completion { shell } => completion::run(shell),
        Noun::Dev(verb) => Box::pin(dev::run(&global, verb)).await,
        noun => Box::pin(ask_cluster(&Context::new(&global)?, noun)).await,
    }
}

async fn ask_cluster(cx: &Context, noun: Noun) -> Result<(), Error> {
    match noun {
        Noun::Vm(verb) => Box::pin(vm::run(cx, verb)).await,
        Noun::Node(verb) => node::run(cx, verb).await,
        Noun::Flavor(verb) => flavor::run(cx, verb).await,
        Noun::Image(verb) => Box::pin(image::run(cx, verb)).await,
        Noun::Volume(verb) => volume::run(cx, verb).await,
        Noun::Aggregate(verb) => aggregate::run(cx, verb).await,
        Noun::Group(verb) => group::run(cx, verb).await,
        Noun::Az(AzVerb::List) => az::list(cx).await,
        Noun::Az(AzVerb::Show { zone }) => az::show(cx, &zone).await,
        Noun::Scheduler(verb) => scheduler::run(cx, verb).await,
        Noun::Quota(verb) => quota::run(cx, verb).await,
        Noun::Project(verb) => project::run(cx, verb).await,
        Noun::Cluster(ClusterVerb::Rebalance { apply, max_moves, min_gain }) => {
            cluster::rebalance::run(cx, apply, max_moves, min_gain).await
        }
        Noun::Cluster(ClusterVerb::WhatIf { lose, drain }) => cluster::what_if::run(cx, &lose, &drain).await,
        Noun::Cluster(ClusterVerb::Candidates(typed)) => cluster::candidates::run(cx, &typed).await,
        Noun::Cluster(ClusterVerb::Status) => cluster::status::run(cx).await,
        Noun::Cluster(ClusterVerb::Freeze { time: Some(time), reason, .. }) => {
            cluster::freeze::begin(cx, time, reason).await
        }
        Noun::Cluster(ClusterVerb::Freeze { .. }) => cluster::freeze::end(cx).await,
        Noun::Cluster(ClusterVerb::Policy(verb)) => cluster::policy::run(cx, &verb).await,
        Noun::Events(typed) => events::run(cx, &typed).await,
        Noun::Check => check::run(cx).await,
        Noun::Completion { .. } | Noun::Dev(_) => unreachable!("handled without a cluster"),
    }
}
