//! Random lives of a machine, and what each mechanism promises in scenarios that show it.
#![cfg(not(any(loom, shuttle)))]

mod driver;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_life_keeps_the_laws(actions in prop::collection::vec(any::<[u8; 4]>(), 1..400)) {
        driver::live(&actions.concat());
    }
}
