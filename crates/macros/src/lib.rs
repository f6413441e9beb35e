//! `#[runyard::main]` and `#[runyard::test]`: an `async fn` as a program or a test, on its own runtime.
//!
//! A program uses these attributes through the crate `runyard`, which exports and documents them. `asked` reads the
//! arguments of an attribute, and `expand` writes the function.
//!
//! Invariants: a refusal points to the wrong word; the rest of the function keeps its form and its place, so the
//! compiler's messages about it are the same as without the attribute.

mod asked;
mod expand;

use asked::Attribute;
use proc_macro::TokenStream;

/// See `runyard::main`.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand::attribute(Attribute::Main, arguments.into(), &function.into()).into()
}

/// See `runyard::test`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand::attribute(Attribute::Test, arguments.into(), &function.into()).into()
}
