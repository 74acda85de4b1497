//! Imports what was uploaded, one log or recording after the other.
//!
//! The same import as that of the command line, from within the server: a recorder of its own,
//! which delivers to the server's port as everybody does.

use std::path::PathBuf;
use std::sync::Arc;

use leasewatch_core::id::Slug;
use leasewatch_proto::channel::ServerAddress;

use super::spool::{self, SpoolRequest, Unpacked};
use super::{ImportError, ImportRequest, Joining, LogError};
use crate::clock::Clock;
use crate::enrollment::{IssueError, Issuer, Order, TokenKind};
use crate::intake::{Failure, HeldFile, Job, Order as Asked, Progress, Queue, State, UploadKind};

/// How long the token of an import is good: the longest log takes less.
const TOKEN_MS: i64 = 3_600_000;

/// Where uploaded files go.
#[derive(Debug, Clone)]
pub struct Importer {
    /// Address of this server.
    pub server: ServerAddress,
    /// Where the keys of imported nodes are kept.
    pub key_dir: PathBuf,
    /// Time.
    pub clock: Clock,
    /// Lets new nodes in.
    pub issuer: Issuer,
}

impl Importer {
    /// Works until there will be no more uploads.
    pub async fn run(self, mut queue: Queue) {
        while let Some(job) = queue.next().await {
            let progress = Progress::default();
            queue.intake().set(&job.id, State::Running(progress.clone()));
            let id = job.id.clone();
            let state = self.import(job, &progress).await;
            queue.intake().set(&id, state);
        }
    }

    /// The file is gone when this is done.
    async fn import(&self, job: Job, progress: &Progress) -> State {
        let Job { id, order, file } = job;
        let imported = match recording(&order, &file).await {
            Ok(None) => self.log(order, &file, progress).await,
            Ok(Some(recording)) => self.recording(order, &recording, progress).await,
            Err(error) => Err(error),
        };
        match imported {
            Ok(done) => {
                tracing::info!(import = %id, "an uploaded file is imported");
                done
            }
            Err(error) => {
                tracing::info!(import = %id, "an uploaded file is not imported");
                State::Failed(Arc::new(failure(error)))
            }
        }
    }

    async fn log(
        &self,
        order: Asked,
        file: &HeldFile,
        progress: &Progress,
    ) -> Result<State, ImportError> {
        let kind = match order.kind {
            Some(UploadKind::Log(kind)) => Some(kind),
            Some(UploadKind::Recording) | None => None,
        };
        let request = ImportRequest {
            kind,
            file: file.path().to_owned(),
            node: order.node,
            tenant: order.tenant,
            provider: order.provider,
            zone: order.zone,
            columns: order.columns,
            cadence_ms: order.cadence_ms,
            strict: order.strict,
            server: self.server.clone(),
            join: None,
            key_dir: self.key_dir.clone(),
        };
        let (tenant, provider) = (request.tenant.clone(), request.provider.clone());
        let report = self.joining((&tenant, &provider), async |join| {
            let request = ImportRequest { join: Some(join), ..request };
            super::run(&request, self.clock.now(), progress).await
        });
        Ok(State::Done(Arc::new(report.await?)))
    }

    async fn recording(
        &self,
        order: Asked,
        recording: &Unpacked,
        progress: &Progress,
    ) -> Result<State, ImportError> {
        let (tenant, provider) = (order.tenant.clone(), order.provider.clone());
        let report = self.joining((&tenant, &provider), async |join| {
            let request = SpoolRequest {
                dir: recording.dir().to_owned(),
                node: order.node,
                tenant: Some(order.tenant),
                provider: order.provider,
                server: self.server.clone(),
                join: Some(join),
            };
            spool::run(&request, progress).await
        });
        Ok(State::Recorded(Arc::new(report.await?)))
    }

    /// With a token of its own, which is gone afterwards if the node was known.
    async fn joining<T>(
        &self,
        (tenant, provider): (&Slug, &Slug),
        deliver: impl AsyncFnOnce(Joining) -> Result<T, ImportError>,
    ) -> Result<T, ImportError> {
        let (kind, valid_ms) = (TokenKind::Single, TOKEN_MS);
        let order = Order {
            tenant,
            provider: Some(provider),
            lease: None,
            kind,
            valid_ms,
            created_by: "upload",
            who: None,
        };
        let not_let_in = |error: IssueError| ImportError::Server(error.to_string());
        let issued = self.issuer.issue(order).await.map_err(not_let_in)?;
        let report = deliver(Joining::from(&issued.join)).await;
        if let Err(error) = self.issuer.forget_unused(issued.key).await {
            tracing::warn!(error = %error, "the token of an import could not be removed");
        }
        report
    }
}

/// What an archive holds, if the file is one.
async fn recording(order: &Asked, file: &HeldFile) -> Result<Option<Unpacked>, ImportError> {
    let (kind, path) = (order.kind, file.path().to_owned());
    let unpacking = tokio::task::spawn_blocking(move || {
        let broken = |source| ImportError::File { path: path.display().to_string(), source };
        match kind {
            Some(UploadKind::Log(_)) => return Ok(None),
            None if !spool::is_archive(&path).map_err(broken)? => return Ok(None),
            Some(UploadKind::Recording) | None => {}
        }
        Ok(Some(spool::unpack(&path)?))
    });
    unpacking.await.map_err(|_| ImportError::broken())?
}

fn failure(error: ImportError) -> Failure {
    match error {
        ImportError::Log(LogError::NoHeader { first_row }) => Failure::NoHeader { first_row },
        ImportError::Log(LogError::Columns { found }) => Failure::Columns { found },
        ImportError::Log(LogError::GpusNotNamed) => Failure::GpusNotNamed,
        ImportError::Log(LogError::OtherTool { found, instead }) => {
            Failure::OtherTool { found, instead: instead.to_owned() }
        }
        ImportError::Nothing(problems) => Failure::Nothing(problems),
        ImportError::Strict(problems) => Failure::Strict(problems),
        ImportError::Recording(fault) => Failure::Recording(fault),
        ImportError::Cadence => Failure::Cadence,
        ImportError::NodeName => Failure::NodeName,
        // The path of the uploaded file means nothing to who uploaded it.
        ImportError::File { source, .. } => Failure::Refused(source.to_string()),
        error => Failure::Refused(error.to_string()),
    }
}
