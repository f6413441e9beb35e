//! Two ways of bringing a group's budget to the CPU that needs it, as tables.

fn main() {
    print!("{}", runyard_benches::borrowing::tables());
}
