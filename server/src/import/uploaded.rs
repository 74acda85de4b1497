//! Imports what was uploaded, one log after the other.
//!
//! The same import as that of the command line, from within the server: a recorder of its own,
//! which delivers to the server's port as everybody does.

use std::path::PathBuf;
use std::sync::Arc;

use leasewatch_proto::channel::ServerAddress;

use super::{ImportError, ImportRequest, Joining, LogError};
use crate::clock::Clock;
use crate::enrollment::{IssueError, Issuer, Order, TokenKind};
use crate::intake::{Failure, ImportReport, Job, Progress, Queue, State};

/// How long the token of an import is good: the longest log takes less.
const TOKEN_MS: i64 = 3_600_000;

/// Where uploaded logs go.
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

    /// With a token of its own, which is gone afterwards if the node was known.
    async fn deliver(
        &self,
        request: ImportRequest,
        progress: &Progress,
    ) -> Result<ImportReport, ImportError> {
        let order = Order {
            tenant: &request.tenant,
            provider: &request.provider,
            kind: TokenKind::Single,
            valid_ms: TOKEN_MS,
            created_by: "upload",
        };
        let not_let_in = |error: IssueError| ImportError::Server(error.to_string());
        let issued = self.issuer.issue(order).await.map_err(not_let_in)?;
        let join = Some(Joining::from(&issued.join));
        let request = ImportRequest { join, ..request };
        let report = super::run(&request, self.clock.now(), progress).await;
        if let Err(error) = self.issuer.forget_unused(issued.key).await {
            tracing::warn!(error = %error, "the token of an import could not be removed");
        }
        report
    }

    /// The file is gone when this is done.
    async fn import(&self, job: Job, progress: &Progress) -> State {
        let Job { id, order, file } = job;
        let request = ImportRequest {
            kind: order.kind,
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
        match self.deliver(request, progress).await {
            Ok(report) => {
                tracing::info!(import = %id, rows = report.rows, "an uploaded log is imported");
                State::Done(Arc::new(report))
            }
            Err(error) => {
                tracing::info!(import = %id, "an uploaded log is not imported");
                State::Failed(Arc::new(failure(error)))
            }
        }
    }
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
        ImportError::Cadence => Failure::Cadence,
        ImportError::NodeName => Failure::NodeName,
        // The path of the uploaded file means nothing to who uploaded it.
        ImportError::File { source, .. } => Failure::Refused(source.to_string()),
        error => Failure::Refused(error.to_string()),
    }
}
