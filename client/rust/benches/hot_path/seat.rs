//! Who takes turns in the contest.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    Ours,
    OursTogether,
    OursLayered,
    OursTimed,
    OursOpen,
    Recloser,
    RecloserTogether,
    RecloserOpen,
    Failsafe,
    FailsafeOpen,
    CircuitbreakerRs,
    CircuitbreakerRsOpen,
    Tower,
    TowerOpen,
}

impl Seat {
    /// The peers that reject.
    pub(crate) const OPEN_PEERS: [Self; 4] =
        [Self::RecloserOpen, Self::FailsafeOpen, Self::CircuitbreakerRsOpen, Self::TowerOpen];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours, closed",
            Self::OursTogether => "ours, closed, 2 threads sharing",
            Self::OursLayered => "ours, closed, through the tower Layer",
            Self::OursTimed => "ours, closed, every call timed",
            Self::OursOpen => "ours, open",
            Self::Recloser => "recloser, closed",
            Self::RecloserTogether => "recloser, closed, 2 threads sharing",
            Self::RecloserOpen => "recloser, open",
            Self::Failsafe => "failsafe (default policy), closed",
            Self::FailsafeOpen => "failsafe, open",
            Self::CircuitbreakerRs => "circuitbreaker-rs, closed (times every call)",
            Self::CircuitbreakerRsOpen => "circuitbreaker-rs, open",
            Self::Tower => "tower-resilience, closed (times every call)",
            Self::TowerOpen => "tower-resilience, open",
        }
    }
}
