//! A policy from a server's policy file, for a process that asks no server.
//!
//! Only the demo's comparison needs this. A real client keeps what its server last told in a cache directory.

use std::path::Path;

use panelboard_client::policy::PolicySpec;
use panelboard_core::BreakerName;
use panelboard_server::limits::Limits;
use panelboard_server::policies;

/// The policy that `file` has for a breaker.
pub fn policy_of(file: &Path, breaker: &str) -> Result<PolicySpec, String> {
    let name = BreakerName::parse(breaker).map_err(|error| error.to_string())?;
    let policies = policies::load(file, &Limits::default(), None).map_err(|errors| errors.to_string())?;
    let policy = policies.resolve(&name).ok_or_else(|| {
        format!("{} has no policy for {breaker}: add one whose match covers the name", file.display())
    })?;
    Ok(policy.spec().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../policies");

    #[test]
    fn every_story_has_a_policy_that_is_valid() {
        let stories = [
            ("shipping-quote", "checkout/shipping-quote"),
            ("inventory", "catalog/inventory"),
            ("flaky-supplier", "catalog/supplier-price"),
            ("shipment-booking", "fulfilment/shipment-booking"),
        ];
        for (file, breaker) in stories {
            let policy = policy_of(&Path::new(FOLDER).join(format!("{file}.yaml")), breaker).unwrap();
            assert_eq!(policy.name, file);
            // The folder as a whole can be given to a server, too.
            assert_eq!(policy_of(Path::new(FOLDER), breaker).unwrap(), policy);
        }
        let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).join("story.yaml");
        assert!(policy_of(&fleet, "checkout/shipping-quote").is_ok());
    }

    #[test]
    fn a_breaker_without_a_policy_is_named() {
        let file = Path::new(FOLDER).join("inventory.yaml");
        let error = policy_of(&file, "checkout/other").unwrap_err();
        assert!(
            error.ends_with("has no policy for checkout/other: add one whose match covers the name"),
            "{error}"
        );
    }
}
