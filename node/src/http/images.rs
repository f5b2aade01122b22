//! `/v1/images`: list, show, delete, import, and the bytes themselves. An import streams to disk on the node
//! that is asked, is verified there, and becomes a record only when it is whole; the other nodes pull it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{HeaderMap, StatusCode, header, request};
use axum::response::Response;
use futures::StreamExt;
use holm_api::{Code, CreateImageQuery, Deleted, Image, List, ProjectListQuery, ReadQuery, header as holm};
use holm_model::reply::{Kind, Outcome};
use holm_model::{Command, ImageId, Reason, State as Model, command, image, limits};
use holm_vmm::image_check;
use holm_vmm::image_store::{self, Stored};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::answer::Answer;
use super::convert;
use super::extract::{Change, Named, NoBody, Query, Repeated, drain};
use super::openapi::{MatchHeader, ProjectHeader, WriteHeaders};
use super::page::Page;
use super::problem::{Failure, Result};
use super::project::Project;
use super::proxy::{forward, was_forwarded};
use super::range::serve;
use super::read::{READ_TIMEOUT, Snapshot};
use super::write::{Accepted, Basis, Intent, perform};
use crate::app::{App, Shared, chain};

/// An upload that brings nothing for this long has been given up.
const UPLOAD_IDLE: Duration = Duration::from_secs(60);

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(show, delete)).routes(routes!(data))
}

/// Import an image: the body is its bytes.
#[utoipa::path(post, path = "/v1/images", tag = "images",
    params(CreateImageQuery, WriteHeaders,
        ("property" = Option<Vec<String>>, Query, description = "KEY=VALUE, once for each property"),
        ("Holm-Sha256" = Option<String>, Header, description = "What the bytes must hash to, in hex")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = Image)))]
async fn create(
    State(app): State<Shared>,
    query: Result<ImportQuery>,
    request: Request,
) -> Result<Answer<Image>> {
    let (parts, body) = request.into_parts();
    let waits = parts.headers.contains_key(header::EXPECT);
    let admitted = match query {
        Ok(query) => admit(&app, &parts, query).await,
        Err(failure) => Err(failure),
    };
    let accepted = match admitted {
        Ok(Admitted::New(import)) => import_bytes(&app, import, body).await?,
        refused => {
            // Read to its end, so that the sender gets the answer and not a broken connection; one that
            // waits to be asked for the bytes is not asked.
            if !waits {
                drain(body).await;
            }
            match refused? {
                Admitted::Before(accepted) => accepted,
                Admitted::New(_) => unreachable!("matched above"),
            }
        }
    };
    let Outcome::Image(id) = accepted.done.outcome else { return Err(Failure::unexpected(&accepted)) };
    let state = &accepted.published.state;
    let image = state.images.get(&id).ok_or_else(|| Failure::gone(Kind::Image, &accepted))?;
    let image = convert::image(state, image);
    let (location, revision) = (format!("/v1/images/{}", image.id), image.revision);
    Ok(Answer::accepted(StatusCode::CREATED, &accepted, image).location(location).etag(revision))
}

/// An import that may go on, once its head has been looked at.
struct Import {
    name: String,
    kind: image::ImageKind,
    sha256: Option<String>,
    properties: BTreeMap<String, String>,
    intent: Intent,
}

/// The query of an import: `property` may be repeated, the rest may not.
struct ImportQuery {
    query: CreateImageQuery,
    properties: BTreeMap<String, String>,
}

impl<S: Send + Sync> FromRequestParts<S> for ImportQuery {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut request::Parts, _: &S) -> Result<Self> {
        let repeated = Repeated::split(&parts.uri, &["property"])?;
        let query = repeated.others()?;
        let mut properties = BTreeMap::new();
        for (_, property) in repeated.given {
            let bad =
                |why: &str| Failure::new(Code::InvalidQuery, format!("{property:?} {why}")).field("property");
            let (key, value) = property.split_once('=').ok_or_else(|| bad("is not KEY=VALUE"))?;
            if properties.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(bad("names its key a second time"));
            }
        }
        Ok(Self { query, properties })
    }
}

enum Admitted {
    New(Import),
    /// It was done before; this is the repetition.
    Before(Accepted),
}

async fn admit(app: &App, parts: &request::Parts, query: ImportQuery) -> Result<Admitted> {
    let ImportQuery { query, properties } = query;
    limits::name("name", &query.name)?;
    limits::map("property", &properties)?;
    let sha256 = announced_sha256(&parts.headers)?;
    let canonical = sha256.as_deref().unwrap_or_default();
    let intent = Intent::new(&parts.method, &parts.uri, &parts.headers, canonical.as_bytes())?;
    intent.refuse_if_match()?;
    let published = app.raft.read(READ_TIMEOUT).await?;
    intent.refuse_seen_ahead(&published.state)?;
    if let Some(done) = intent.answered(&published.state)? {
        return Ok(Admitted::Before(Accepted { done, duplicate: true, published }));
    }
    if published.state.find_image(intent.project.known(&published.state)?, &query.name).is_some() {
        return Err(Reason::NameTaken { kind: Kind::Image, name: query.name }.into());
    }
    let kind = convert::image_kind(query.kind);
    Ok(Admitted::New(Import { name: query.name, kind, sha256, properties, intent }))
}

fn announced_sha256(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(value) = headers.get(holm::SHA256) else { return Ok(None) };
    let digest = value.to_str().unwrap_or_default().to_ascii_lowercase();
    if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(Some(digest))
    } else {
        Err(Failure::new(Code::InvalidHeader, "`Holm-Sha256` must be 64 hex digits").field("Holm-Sha256"))
    }
}

async fn import_bytes(app: &App, import: Import, body: Body) -> Result<Accepted> {
    let stored = receive(app, &import, body).await?;
    check(app, import.kind, &stored).await?;
    let id = ImageId(Uuid::now_v7());
    perform(&app.raft, &import.intent, Basis::Local, |_| {
        Ok(Command::CreateImage(command::CreateImage {
            id,
            name: import.name.clone(),
            kind: import.kind,
            size_bytes: stored.size_bytes,
            sha256: stored.sha256.clone(),
            holder: app.raft.node_id(),
            properties: import.properties.clone(),
        }))
    })
    .await
}

/// Streams the body into the image store. What is not whole, or not what was announced, leaves nothing.
async fn receive(app: &App, import: &Import, body: Body) -> Result<Stored> {
    let truncated = |why: String| {
        let failure = Failure::new(Code::TruncatedUpload, format!("{why}; nothing was stored"));
        failure.field("body").hint("upload it again")
    };
    let mut upload = app.images.begin().await.map_err(store_failure)?;
    let mut body = body.into_data_stream();
    loop {
        let chunk = tokio::time::timeout(UPLOAD_IDLE, body.next())
            .await
            .map_err(|_| truncated(format!("no bytes came for {} s", UPLOAD_IDLE.as_secs())))?;
        match chunk {
            Some(Ok(bytes)) => {
                if let Err(error) = upload.write(bytes).await {
                    drop(upload);
                    drain(Body::from_stream(body)).await;
                    return Err(store_failure(error));
                }
            }
            Some(Err(error)) => return Err(truncated(format!("the upload ended early: {error}"))),
            None => break,
        }
    }
    upload.finish(import.sha256.as_deref()).await.map_err(store_failure)
}

/// Whether the bytes are what they are said to be. Refused ones stay, without a record, until the agent
/// removes what no record names: another import of the same bytes may be under way.
async fn check(app: &App, kind: image::ImageKind, stored: &Stored) -> Result<()> {
    let Some(path) = app.images.path(&stored.sha256) else {
        return Err(Failure::new(Code::Internal, "the stored image has disappeared"));
    };
    let checked = tokio::task::spawn_blocking(move || image_check::check(&path, kind)).await;
    checked.map_err(|error| Failure::new(Code::Internal, error.to_string()))?.map_err(|refusal| match refusal
    {
        image_check::Refusal::Empty => store_failure(image_store::Error::Empty),
        image_check::Refusal::Io(error) => Failure::new(Code::Internal, format!("cannot read it: {error}")),
        refusal => Failure::new(Code::InvalidField, format!("kind: {refusal}")).field("kind"),
    })
}

fn store_failure(error: image_store::Error) -> Failure {
    use image_store::Error;
    let new = |code| Failure::new(code, chain(&error));
    match error {
        Error::WrongChecksum { .. } => new(Code::ChecksumMismatch).field("Holm-Sha256"),
        Error::Empty => new(Code::InvalidField).field("body"),
        Error::NoSpace(_) => new(Code::StorageFull),
        _ => new(Code::Internal),
    }
}

/// List the images a project may use, its own and those of `default`, oldest first.
#[utoipa::path(get, path = "/v1/images", tag = "images", params(ProjectListQuery, ProjectHeader),
    responses((status = 200, body = List<Image>)))]
async fn list(
    State(app): State<Shared>,
    project: Project,
    Query(query): Query<ProjectListQuery>,
) -> Result<Answer<List<Image>>> {
    let page = Page::<ImageId>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let project = project.known(state)?;
    let wanted = |image: &image::Image| query.all_projects || image.is_usable_by(project);
    let rest = state.images.range(page.start()).filter(|(_, image)| wanted(image));
    let list = page.cut(state.revision, rest, |image| convert::image(state, image));
    Ok(Answer::read(&snapshot, list))
}

/// Show an image.
#[utoipa::path(get, path = "/v1/images/{image}", tag = "images",
    params(("image" = String, Path, description = "Name or id"), ReadQuery, ProjectHeader),
    responses((status = 200, body = Image)))]
async fn show(
    State(app): State<Shared>,
    project: Project,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Image>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let image = convert::image(snapshot.state(), usable(snapshot.state(), &project, &name)?);
    let revision = image.revision;
    Ok(Answer::read(&snapshot, image).etag(revision))
}

/// Delete an image. Refused while a VM uses it.
#[utoipa::path(delete, path = "/v1/images/{image}", tag = "images",
    params(("image" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 202, body = Deleted)))]
async fn delete(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Deleted>> {
    let before = app.raft.state();
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let id = own(state, &intent.project, &name.0)?.id;
        Ok(Command::DeleteImage(command::DeleteImage { id, expected: intent.expected }))
    })
    .await?;
    let Outcome::Image(id) = accepted.done.outcome else { return Err(Failure::unexpected(&accepted)) };
    let known = before.state.images.get(&id).map(|image| image.name.clone());
    Ok(Answer::deleted(&accepted, id.to_string(), known))
}

/// The image's bytes, from this node or one that has them. Takes `Range`.
#[utoipa::path(get, path = "/v1/images/{image}/data", tag = "images",
    params(("image" = String, Path, description = "Name or id"), ReadQuery, ProjectHeader,
        ("Range" = Option<String>, Header, description = "One range of bytes")),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream")))]
async fn data(
    State(app): State<Shared>,
    project: Project,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
    request: Request,
) -> Result<Response> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let image = usable(state, &project, &name)?;
    if let Some(path) = app.images.path(&image.sha256) {
        return serve(&path, &image.sha256, request.headers()).await;
    }
    let me = app.raft.node_id();
    let others = image.holders.iter().filter(|holder| **holder != me);
    let holder = others.filter_map(|holder| state.nodes.get(holder)).max_by_key(|node| node.up);
    match holder {
        Some(holder) if !was_forwarded(request.headers()) => forward(&app, holder, request).await,
        _ => {
            Err(Failure::new(Code::Unavailable, format!("the bytes of image `{}` are not here", image.name))
                .hint("its `holders` have them"))
        }
    }
}

/// One that is read: by id of any project, by name of this or shared by all.
fn usable<'a>(state: &'a Model, project: &Project, name: &str) -> Result<&'a image::Image> {
    let project = project.known(state)?;
    let image = state.find_image(project, name).or_else(|| state.find_usable_image(project, name));
    image.ok_or_else(|| Failure::not_found(Kind::Image, name))
}

/// One that is changed: a name is looked up in the project alone.
fn own<'a>(state: &'a Model, project: &Project, name: &str) -> Result<&'a image::Image> {
    state.find_image(project.known(state)?, name).ok_or_else(|| Failure::not_found(Kind::Image, name))
}
