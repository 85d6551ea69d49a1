//! Every store against one contract, and the embedded one against crashes, full disks and damaged files.

mod crash;
mod damage;
mod embedded;
mod full_disk;
mod handle;
mod reference;
mod suite;

mod memory {
    use panelboard_server::store::{Memory, Store, StoreId};

    use crate::suite::Subject;

    struct InMemory(Memory);

    impl Subject for InMemory {
        fn fresh() -> Self {
            Self(Memory::new(StoreId::from_u128(rand::random())))
        }

        fn store(&self) -> &dyn Store {
            &self.0
        }
    }

    crate::suite::contract!(InMemory);
}
