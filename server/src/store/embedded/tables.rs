//! The tables and the transactions on them.

use std::ops::Bound;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::super::batch::{Batch, Write};
use super::super::error::{CommitError, Conflict, Fault};
use super::super::memory::{epoch_after, no_more_versions};
use super::super::record::{Key, Record, StoreId, Value, Version};

/// Key → (version, value).
const RECORDS: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("records");

/// What the store knows of itself, by the names below.
const ABOUT: TableDefinition<'_, &str, u128> = TableDefinition::new("about");
const FORMAT: &str = "format";
const ID: &str = "id";
const VERSION: &str = "version";
const EPOCH: &str = "epoch";

/// The layout of these tables. Another number when an older server could not read them.
pub(super) const FORMAT_NOW: u128 = 1;

/// Who a file says it is.
pub(super) struct About {
    pub(super) format: u128,
    pub(super) id: StoreId,
}

/// Makes the tables of a new store.
pub(super) fn create(database: &Database, id: StoreId) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(RECORDS)?;
    {
        let mut about = transaction.open_table(ABOUT)?;
        about.insert(FORMAT, FORMAT_NOW)?;
        about.insert(ID, id.as_u128())?;
        about.insert(VERSION, u128::from(Version::INITIAL.as_u64()))?;
        about.insert(EPOCH, 0)?;
    }
    Ok(transaction.commit()?)
}

/// Who the file says it is.
pub(super) fn about(database: &Database) -> Result<About, redb::Error> {
    let about = database.begin_read()?.open_table(ABOUT)?;
    Ok(About { format: number(&about, FORMAT)?, id: StoreId::from_u128(number(&about, ID)?) })
}

/// See [`Store::get`](crate::store::Store::get).
pub(super) fn get(database: &Database, key: &Key) -> Result<Option<Record>, redb::Error> {
    let records = database.begin_read()?.open_table(RECORDS)?;
    records.get(key.as_str())?.map(|stored| record(key.clone(), stored.value())).transpose()
}

/// See [`Store::scan`](crate::store::Store::scan).
pub(super) fn scan(
    database: &Database,
    prefix: &str,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<Record>, redb::Error> {
    let start = match after {
        Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
        _ => Bound::Included(prefix),
    };
    let records = database.begin_read()?.open_table(RECORDS)?;
    let mut found = Vec::new();
    for stored in records.range::<&str>((start, Bound::Unbounded))?.take(limit) {
        let (key, stored) = stored?;
        if !key.value().starts_with(prefix) {
            break;
        }
        let key = Key::new(key.value()).map_err(damaged)?;
        found.push(record(key, stored.value())?);
    }
    Ok(found)
}

/// See [`Store::commit`](crate::store::Store::commit).
pub(super) fn commit(
    database: &Database,
    batch: &Batch,
) -> Result<Result<Version, CommitError>, redb::Error> {
    let transaction = database.begin_write()?;
    match write(&transaction, batch)? {
        Ok(version) if batch.is_empty() => {
            transaction.abort()?;
            Ok(Ok(version))
        }
        Ok(version) => {
            transaction.commit()?;
            Ok(Ok(version))
        }
        Err(refused) => {
            transaction.abort()?;
            Ok(Err(refused))
        }
    }
}

/// See [`Store::next_epoch`](crate::store::Store::next_epoch).
pub(super) fn next_epoch(database: &Database, now_unix_ms: u64) -> Result<Result<u64, Fault>, redb::Error> {
    let transaction = database.begin_write()?;
    let next = {
        let mut about = transaction.open_table(ABOUT)?;
        let next = epoch_after(small_number(&about, EPOCH)?, now_unix_ms);
        if let Ok(epoch) = next {
            about.insert(EPOCH, u128::from(epoch))?;
        }
        next
    };
    transaction.commit()?;
    Ok(next)
}

fn write(transaction: &WriteTransaction, batch: &Batch) -> Result<Result<Version, CommitError>, redb::Error> {
    let mut about = transaction.open_table(ABOUT)?;
    let last = Version::from_u64(small_number(&about, VERSION)?);
    if batch.is_empty() {
        return Ok(Ok(last));
    }
    let mut records = transaction.open_table(RECORDS)?;
    let mut conflicts = Vec::new();
    for write in batch.writes() {
        let current = records.get(write.key().as_str())?.map(|stored| Version::from_u64(stored.value().0));
        if !write.precondition().holds(current) {
            conflicts.push(Conflict { key: write.key().clone(), current });
        }
    }
    if !conflicts.is_empty() {
        return Ok(Err(CommitError::Conflict(conflicts)));
    }
    let Some(version) = last.next() else { return Ok(Err(no_more_versions().into())) };
    for write in batch.writes() {
        match write {
            Write::Put { key, value, .. } => {
                records.insert(key.as_str(), (version.as_u64(), value.as_bytes()))?;
            }
            Write::Delete { key, .. } => {
                records.remove(key.as_str())?;
            }
        }
    }
    about.insert(VERSION, u128::from(version.as_u64()))?;
    Ok(Ok(version))
}

fn record(key: Key, (version, bytes): (u64, &[u8])) -> Result<Record, redb::Error> {
    let value = Value::new(bytes.to_vec()).map_err(damaged)?;
    Ok(Record { key, version: Version::from_u64(version), value })
}

fn number(about: &impl ReadableTable<&'static str, u128>, name: &str) -> Result<u128, redb::Error> {
    match about.get(name)? {
        Some(number) => Ok(number.value()),
        None => Err(damaged(format!("it does not say its {name}"))),
    }
}

fn small_number(about: &impl ReadableTable<&'static str, u128>, name: &str) -> Result<u64, redb::Error> {
    let number = number(about, name)?;
    u64::try_from(number).map_err(|_| damaged(format!("its {name} is {number}, which is too large")))
}

fn damaged(what: impl ToString) -> redb::Error {
    redb::Error::Corrupted(what.to_string())
}
