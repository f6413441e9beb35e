//! The function that replaces an `async fn`.
//!
//! ```text
//! #[ignore]                              #[ignore]
//! #[runyard::test(workers = 2)]          #[::core::prelude::v1::test]
//! async fn it_works() -> Result<(), E>   fn it_works() -> Result<(), E> {
//! { .. }                                     async fn it_works() -> Result<(), E> { .. }
//!                                            ::runyard::Runtime::builder().workers(2).build().block_on(it_works())
//!                                        }
//! ```
//!
//! The `async fn` stays a function, inside the other. Rejected: its body as an `async` block, as in tokio. The compiler
//! then has to guess the error type for `?`, and its message about a wrong result names another place.

use crate::asked::{Asked, Attribute, Paused};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Error, ItemFn, Result, Signature};

/// Returns the function with which an attribute with these arguments replaces `function`. If the attribute refuses it,
/// returns the message and the unchanged function, because a missing function would cause a second error.
pub(crate) fn attribute(
    attribute: Attribute,
    arguments: TokenStream,
    function: &TokenStream,
) -> TokenStream {
    expand(attribute, arguments, function.clone()).unwrap_or_else(|error| {
        let message = error.into_compile_error();
        quote!(#message #function)
    })
}

fn expand(
    attribute: Attribute,
    arguments: TokenStream,
    function: TokenStream,
) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function)?;
    check(attribute, &function)?;
    let Asked {
        current_thread,
        workers,
        max_threads,
        preempt,
        shutdown_timeout,
        tokio,
        paused,
        runyard,
    } = Asked::take(attribute, arguments)?;
    let builder = match current_thread {
        true => quote!(#runyard::Builder::new_current_thread()),
        false => quote!(#runyard::Runtime::builder()),
    };
    let workers = workers.map(|number| quote!(.workers(#number)));
    let max_threads = max_threads.map(|number| quote!(.max_threads(#number)));
    let preempt = preempt.map(|switch| quote!(.preempt(#switch)));
    // Without the feature, the compiler reports at this word that the method does not exist.
    let tokio = tokio.map(|span| quote_spanned!(span=> .enable_tokio()));
    let ItemFn { attrs, vis, sig, block } = function;
    let outer = Signature { asyncness: None, ..sig.clone() };
    let name = &sig.ident;
    let test = (attribute == Attribute::Test).then(|| quote!(#[::core::prelude::v1::test]));
    let run = match paused {
        Some(Paused { seed, cpus }) => {
            quote!(#runyard::test::paused(#seed).cpus(#cpus).run(#name()))
        }
        None => {
            let run = match shutdown_timeout {
                Some(nanos) => quote! {
                    .run_and_end(::core::time::Duration::from_nanos(#nanos), #name())
                },
                None => quote!(.block_on(#name())),
            };
            quote! {
                #builder #workers #max_threads #preempt #tokio .build() #run
            }
        }
    };
    Ok(quote! {
        #test
        #(#attrs)*
        #vis #outer {
            #sig #block
            #run
        }
    })
}

/// Refuses functions that the attribute does not accept.
fn check(attribute: Attribute, function: &ItemFn) -> Result<()> {
    let sig = &function.sig;
    let what = match attribute {
        Attribute::Main => "`#[runyard::main]` is for an `async fn`",
        Attribute::Test => "`#[runyard::test]` is for an `async fn`",
    };
    if sig.asyncness.is_none() {
        return Err(Error::new_spanned(sig.fn_token, what));
    }
    if !sig.inputs.is_empty() {
        let message = format!("{what} without arguments");
        return Err(Error::new_spanned(&sig.inputs, message));
    }
    if !sig.generics.params.is_empty() {
        let message = format!("{what} without generic parameters");
        return Err(Error::new_spanned(&sig.generics, message));
    }
    let is_test = |attr: &&syn::Attribute| {
        attr.path().segments.last().is_some_and(|last| last.ident == "test")
    };
    match function.attrs.iter().find(is_test) {
        Some(second) if attribute == Attribute::Test => Err(Error::new_spanned(
            second,
            "this attribute makes the function a test a second time: remove it",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message of an attribute with these arguments about a function.
    fn error(arguments: &str, function: &str) -> String {
        let [arguments, function] = [arguments, function].map(|text| text.parse().unwrap());
        expand(Attribute::Test, arguments, function).unwrap_err().to_string()
    }

    fn expanded(attribute: Attribute, arguments: &str) -> String {
        let [arguments, function] =
            [arguments, "async fn f() {}"].map(|text| text.parse().unwrap());
        expand(attribute, arguments, function).unwrap().to_string().replace(' ', "")
    }

    /// Returns the calls on the builder.
    fn calls(attribute: Attribute, arguments: &str) -> String {
        let all = expanded(attribute, arguments);
        let (_, calls) = all.split_once("::runyard::Runtime::builder()").expect("the crate's path");
        calls.split_once(".build()").expect("it is built").0.to_owned()
    }

    #[test]
    fn arguments_become_calls() {
        let main = |arguments| calls(Attribute::Main, arguments);
        assert_eq!(main(""), "");
        assert_eq!(main("workers = 3, max_threads = 9,"), ".workers(3usize).max_threads(9usize)");
        assert_eq!(main("preempt = false"), ".preempt(false)");
        assert_eq!(main("tokio"), ".enable_tokio()");
        assert_eq!(main("workers = 2, tokio = true"), ".workers(2usize).enable_tokio()");
        assert_eq!(main("tokio = false"), "");
        assert_eq!(main("flavor = \"multi_thread\", worker_threads = 4"), ".workers(4usize)");
        assert_eq!(main("flavor = \"multi_thread\""), "");
    }

    #[test]
    fn a_current_thread_runtime_has_its_own_builder() {
        for attribute in [Attribute::Main, Attribute::Test] {
            let all = expanded(attribute, "flavor = \"current_thread\", max_threads = 9, tokio");
            let built = "::runyard::Builder::new_current_thread().max_threads(9usize).enable_tokio().build()";
            assert!(all.contains(built), "{all}");
        }
    }

    #[test]
    fn a_test_has_one_worker_unless_it_says_more() {
        let test = |arguments| calls(Attribute::Test, arguments);
        assert_eq!(test(""), ".workers(1usize)");
        assert_eq!(test("workers = 2"), ".workers(2usize)");
        assert_eq!(test("flavor = \"multi_thread\""), "");
    }

    #[test]
    fn a_paused_test_is_in_virtual_time() {
        let paused = |arguments| {
            let all = expanded(Attribute::Test, arguments);
            let (_, run) = all.split_once("::runyard::test::").expect("it is in virtual time");
            run.trim_end_matches('}').to_owned()
        };
        assert_eq!(paused("paused"), "paused(0u64).cpus(1usize).run(f())");
        assert_eq!(paused("paused, seed = 7, cpus = 2"), "paused(7u64).cpus(2usize).run(f())");
        assert_eq!(calls(Attribute::Test, "paused = false"), ".workers(1usize)");
        let wrong = |arguments| error(arguments, "async fn f() {}");
        assert!(wrong("seed = 7").contains("`paused`"));
        assert!(wrong("paused, workers = 2").contains("simulated CPUs"));
        assert!(wrong("paused, tokio").contains("no driver"));
        assert!(wrong("paused, cpus = 0").contains("above 0"));
        assert!(wrong("paused, seed = -1").contains("whole number"));
        let main = expand(
            Attribute::Main,
            quote!(paused),
            quote!(
                async fn f() {}
            ),
        );
        assert!(main.unwrap_err().to_string().contains("only a test"));
    }

    #[test]
    fn the_crate_may_have_another_name() {
        for path in ["crate = mine::other", "crate = \"mine::other\""] {
            assert!(expanded(Attribute::Main, path).contains("mine::other::Runtime::builder()"));
        }
    }

    #[test]
    fn wrong_functions_are_refused() {
        assert_eq!(error("", "fn f() {}"), "`#[runyard::test]` is for an `async fn`");
        assert!(error("", "async fn f(n: u32) {}").contains("without arguments"));
        assert!(error("", "async fn f<T>() {}").contains("without generic parameters"));
        assert!(error("", "#[test] async fn f() {}").contains("a second time"));
        assert!(error("", "struct F;").contains("expected"));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let wrong = |arguments| error(arguments, "async fn f() {}");
        assert!(wrong("threads = 2").contains("`threads` is not an argument"));
        assert!(wrong("workers").contains("`workers` has no value"));
        assert!(wrong("workers = 0").contains("above 0"));
        assert!(wrong("workers = -1").contains("above 0"));
        assert!(wrong("tokio = 1").contains("`true` or `false`"));
        assert!(wrong("tokio, tokio").contains("was given before"));
        assert!(wrong("max_threads = \"many\"").contains("above 0"));
        assert!(wrong("preempt = 1").contains("`true` or `false`"));
        assert!(wrong("shutdown_timeout = 5").contains("\"250ms\""));
        assert!(wrong("shutdown_timeout = \"5h\"").contains("a span of time"));
        assert!(wrong("flavor = \"local\"").contains("\"multi_thread\""));
        assert!(wrong("workers = 2, worker_threads = 2").contains("was given before"));
        assert!(wrong("flavor = \"current_thread\", workers = 2").contains("has no workers"));
        assert!(wrong("crate = 7").contains("path of the crate"));
    }

    #[test]
    fn attributes_and_the_result_stay() {
        let function =
            "#[ignore] #[should_panic] pub async fn f() -> Result<(), E> { g()?; Ok(()) }";
        let all = expand(Attribute::Test, TokenStream::new(), function.parse().unwrap()).unwrap();
        let all = all.to_string().replace(' ', "");
        let outer = "#[::core::prelude::v1::test]#[ignore]#[should_panic]pubfnf()->Result<(),E>{";
        assert!(all.starts_with(outer), "{all}");
        assert!(all.contains("asyncfnf()->Result<(),E>{g()?;Ok(())}"), "{all}");
    }
}
