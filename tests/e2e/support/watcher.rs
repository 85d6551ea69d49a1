//! One end of a watch, and what it was told.

use panelboard_proto::v1::{self, watch_response::Event};

use super::{Service, within};

/// An open watch.
pub(crate) struct Watcher(tonic::Streaming<v1::WatchResponse>);

/// What came up to SnapshotComplete.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) started: v1::Started,
    pub(crate) reset: Option<v1::Reset>,
    pub(crate) statuses: Vec<v1::BreakerStatus>,
    pub(crate) deleted: Vec<v1::Deleted>,
    pub(crate) not_found: Vec<v1::NotFound>,
    pub(crate) complete: v1::SnapshotComplete,
}

impl Snapshot {
    pub(crate) fn names(&self) -> Vec<&str> {
        self.statuses.iter().map(|status| status.name.as_str()).collect()
    }
}

impl Watcher {
    pub(crate) async fn open(
        service: &mut Service,
        client: Option<v1::Client>,
        breakers: &[&str],
        token: &[u8],
    ) -> Result<Self, tonic::Status> {
        let breakers = breakers.iter().map(ToString::to_string).collect();
        let request = v1::WatchRequest { client, breakers, resume: token.to_vec().into() };
        Ok(Self(within("Watch", service.watch(request)).await?.into_inner()))
    }

    /// The next message; none at the end of the stream.
    pub(crate) async fn message(&mut self) -> Option<v1::WatchResponse> {
        within("a message of the watch", self.0.message()).await.unwrap()
    }

    pub(crate) async fn event(&mut self) -> Event {
        self.message().await.expect("the stream goes on").event.expect("a message says something")
    }

    /// The next event but bookmarks, which come when they come.
    pub(crate) async fn news(&mut self) -> Event {
        loop {
            match self.event().await {
                Event::Bookmark(_) => {}
                news => return news,
            }
        }
    }

    /// The next news, which must be a status.
    pub(crate) async fn status(&mut self) -> v1::BreakerStatus {
        match self.news().await {
            Event::Status(status) => status,
            other => panic!("expected a status, came {other:?}"),
        }
    }

    /// The next news, which must be a deletion.
    pub(crate) async fn deleted(&mut self) -> v1::Deleted {
        match self.news().await {
            Event::Deleted(deleted) => deleted,
            other => panic!("expected a deletion, came {other:?}"),
        }
    }

    pub(crate) async fn bookmark(&mut self) -> v1::Bookmark {
        match self.event().await {
            Event::Bookmark(bookmark) => bookmark,
            other => panic!("expected a bookmark, came {other:?}"),
        }
    }

    /// Everything up to SnapshotComplete, in the order it must come in.
    pub(crate) async fn snapshot(&mut self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        match self.event().await {
            Event::Started(started) => snapshot.started = started,
            other => panic!("the first message is {other:?}"),
        }
        loop {
            match self.event().await {
                Event::Reset(reset) if snapshot.statuses.is_empty() && snapshot.deleted.is_empty() => {
                    snapshot.reset = Some(reset);
                }
                Event::Status(status) => snapshot.statuses.push(status),
                Event::Deleted(deleted) => snapshot.deleted.push(deleted),
                Event::NotFound(not_found) => snapshot.not_found.push(not_found),
                Event::SnapshotComplete(complete) => {
                    snapshot.complete = complete;
                    return snapshot;
                }
                other => panic!("within a snapshot came {other:?}"),
            }
        }
    }
}
