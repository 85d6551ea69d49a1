//! The store from async code.

use std::sync::Arc;

use panelboard_server::store::{
    Batch, CommitError, Conflict, Fault, Handle, Key, Memory, Precondition, Record, Store, StoreId, Version,
};

use crate::suite::{batch, key, put};

#[tokio::test]
async fn every_call_passes_through() {
    let handle = Handle::new(Arc::new(Memory::new(StoreId::from_u128(3))));
    assert_eq!(handle.id(), StoreId::from_u128(3));
    let make = || batch([put("a", "1", Precondition::Absent)]);
    let version = handle.commit(make()).await.expect("it does not exist");
    let conflict = Conflict { key: key("a"), current: Some(version) };
    assert_eq!(handle.commit(make()).await, Err(CommitError::Conflict(vec![conflict])));
    let found = handle.get(key("a")).await.expect("it is read").expect("it exists");
    assert_eq!(handle.scan_all("a").await, Ok(vec![found]));
    assert_eq!(handle.next_epoch(5).await, Ok(5));
}

/// A store that breaks its promise not to panic.
#[derive(Debug)]
struct Panicking;

impl Store for Panicking {
    fn id(&self) -> StoreId {
        StoreId::from_u128(0)
    }

    fn get(&self, _: &Key) -> Result<Option<Record>, Fault> {
        panic!("a bug in a store")
    }

    fn scan(&self, _: &str, _: Option<&Key>, _: usize) -> Result<Vec<Record>, Fault> {
        panic!("a bug in a store")
    }

    fn commit(&self, _: &Batch) -> Result<Version, CommitError> {
        panic!("a bug in a store")
    }

    fn next_epoch(&self, _: u64) -> Result<u64, Fault> {
        panic!("a bug in a store")
    }
}

#[tokio::test]
async fn a_panic_in_a_store_is_a_fault_to_its_caller() {
    let handle = Handle::new(Arc::new(Panicking));
    let result = handle.commit(Batch::new()).await;
    assert!(matches!(result, Err(CommitError::Fault(Fault::Unavailable { .. }))), "{result:?}");
    assert!(matches!(handle.get(key("a")).await, Err(Fault::Unavailable { .. })));
}
