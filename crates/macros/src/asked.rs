//! The arguments of an attribute: `KEY = VALUE`, separated by commas.
//!
//! A new key has four places: [`KEYS`], its branch in [`Reading::take`], its field in [`Asked`], and its call on the
//! builder in [`expand`](crate::expand). [`Reading::end`] refuses keys that do not fit together, or not to the
//! attribute.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, Lit, LitInt, Path, Result, Token};

/// The attribute whose arguments are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribute {
    Main,
    Test,
}

/// The keys that an attribute accepts, for its messages.
const KEYS: &str = "`workers`, `max_threads`, `preempt`, `shutdown_timeout`, `tokio`, `crate`, `paused`, `seed`, \
     `cpus`, and tokio's `worker_threads` and `flavor`";

/// The keys that mean `true` if they have no value.
const SWITCHES: [&str; 2] = ["paused", "tokio"];

/// The arguments of an attribute, all checked.
pub(crate) struct Asked {
    /// Whether tasks run on the thread of the function.
    pub(crate) current_thread: bool,
    pub(crate) workers: Option<usize>,
    pub(crate) max_threads: Option<usize>,
    pub(crate) preempt: Option<bool>,
    /// The most nanoseconds that the end of the runtime takes.
    pub(crate) shutdown_timeout: Option<u64>,
    /// The place of the argument that asks for tokio's driver, if there is one.
    pub(crate) tokio: Option<Span>,
    /// The runtime in virtual time that replaces a live one, if it is asked for.
    pub(crate) paused: Option<Paused>,
    /// The path of the crate `runyard`.
    pub(crate) runyard: Path,
}

/// The seed of a runtime in virtual time, and the number of its CPUs.
pub(crate) struct Paused {
    pub(crate) seed: u64,
    pub(crate) cpus: usize,
}

/// The names of tokio's kinds of runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavor {
    CurrentThread,
    MultiThread,
}

/// One argument.
struct Argument {
    key: Ident,
    value: Expr,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Argument> {
        // `crate` is a keyword.
        let key = Ident::parse_any(input)?;
        if SWITCHES.iter().any(|switch| key == switch) && !input.peek(Token![=]) {
            return Ok(Argument { key, value: syn::parse_quote!(true) });
        }
        if !input.peek(Token![=]) {
            return Err(Error::new(
                key.span(),
                format!("`{key}` has no value: write `{key} = VALUE`"),
            ));
        }
        input.parse::<Token![=]>()?;
        Ok(Argument { key, value: input.parse()? })
    }
}

/// The arguments read so far.
#[derive(Default)]
struct Reading {
    keys: Vec<String>,
    workers: Option<LitInt>,
    max_threads: Option<LitInt>,
    preempt: Option<bool>,
    shutdown_timeout: Option<u64>,
    tokio: Option<Span>,
    paused: Option<bool>,
    seed: Option<LitInt>,
    cpus: Option<LitInt>,
    flavor: Option<(Flavor, Expr)>,
    runyard: Option<Path>,
}

impl Parse for Reading {
    fn parse(input: ParseStream<'_>) -> Result<Reading> {
        let mut reading = Reading::default();
        for argument in Punctuated::<Argument, Token![,]>::parse_terminated(input)? {
            reading.take(&argument)?;
        }
        Ok(reading)
    }
}

impl Reading {
    fn take(&mut self, Argument { key, value }: &Argument) -> Result<()> {
        let name = match key.to_string().as_str() {
            "worker_threads" => "workers".to_owned(),
            name => name.to_owned(),
        };
        match name.as_str() {
            "workers" => self.workers = Some(count(value)?),
            "max_threads" => self.max_threads = Some(count(value)?),
            "preempt" => self.preempt = Some(switch(value)?),
            "shutdown_timeout" => self.shutdown_timeout = Some(span_of_time(value)?),
            "tokio" => self.tokio = switch(value)?.then(|| key.span()),
            "paused" => self.paused = Some(switch(value)?),
            "seed" => self.seed = Some(seed(value)?),
            "cpus" => self.cpus = Some(count(value)?),
            "flavor" => self.flavor = Some((flavor(value)?, value.clone())),
            "crate" => self.runyard = Some(path(value)?),
            name => {
                let message =
                    format!("`{name}` is not an argument of this attribute: it accepts {KEYS}");
                return Err(Error::new(key.span(), message));
            }
        }
        if self.keys.contains(&name) {
            return Err(Error::new(key.span(), format!("`{name}` was given before: remove one")));
        }
        self.keys.push(name);
        Ok(())
    }

    /// Returns the runtime in virtual time, if one is asked for.
    fn paused(&self, attribute: Attribute) -> Result<Option<Paused>> {
        let span = Span::call_site();
        let gives = |keys: &[&str]| keys.iter().any(|key| self.keys.iter().any(|it| it == key));
        if self.paused != Some(true) {
            return match gives(&["seed", "cpus"]) {
                true => Err(Error::new(span, "`seed` and `cpus` are accepted only with `paused`")),
                false => Ok(None),
            };
        }
        if attribute == Attribute::Main {
            return Err(Error::new(span, "only a test may be `paused`: remove the argument"));
        }
        if gives(&["workers", "max_threads", "preempt", "shutdown_timeout", "flavor"]) {
            let message = "a `paused` test has simulated CPUs: it accepts `seed` and `cpus`, and no \
                           argument about threads";
            return Err(Error::new(span, message));
        }
        if let Some(tokio) = self.tokio {
            let message = "a `paused` test has no driver of tokio's: sockets need real time";
            return Err(Error::new(tokio, message));
        }
        let cpus = self.cpus.as_ref().map_or(Ok(1), LitInt::base10_parse)?;
        let seed = self.seed.as_ref().map_or(Ok(0), LitInt::base10_parse)?;
        Ok(Some(Paused { seed, cpus }))
    }

    fn end(self, attribute: Attribute) -> Result<Asked> {
        let paused = self.paused(attribute)?;
        let number = |count: Option<LitInt>| count.map(|it| it.base10_parse()).transpose();
        let current_thread = match &self.flavor {
            Some((Flavor::CurrentThread, flavor)) if self.workers.is_some() => {
                let message = "a `current_thread` runtime has no workers: remove their number";
                return Err(Error::new(flavor.span(), message));
            }
            Some((Flavor::CurrentThread, _)) => true,
            _ => false,
        };
        // As with tokio, a test has one CPU unless it asks for more.
        let one = self.flavor.is_none() && self.workers.is_none() && attribute == Attribute::Test;
        let workers = number(self.workers)?;
        Ok(Asked {
            current_thread,
            workers: if one { Some(1) } else { workers },
            max_threads: number(self.max_threads)?,
            preempt: self.preempt,
            shutdown_timeout: self.shutdown_timeout,
            tokio: self.tokio,
            paused,
            runyard: self.runyard.unwrap_or_else(|| syn::parse_quote!(::runyard)),
        })
    }
}

impl Asked {
    /// Reads and checks the arguments of an attribute.
    pub(crate) fn take(attribute: Attribute, input: proc_macro2::TokenStream) -> Result<Asked> {
        syn::parse2::<Reading>(input)?.end(attribute)
    }
}

/// Returns a number above zero.
fn count(value: &Expr) -> Result<LitInt> {
    let error = || Error::new(value.span(), "a whole number above 0 is expected here");
    let Some(Lit::Int(number)) = literal(value) else { return Err(error()) };
    if number.base10_parse::<usize>().is_ok_and(|number| number > 0) {
        Ok(number.clone())
    } else {
        Err(error())
    }
}

/// Returns a seed, which may be zero.
fn seed(value: &Expr) -> Result<LitInt> {
    match literal(value) {
        Some(Lit::Int(number)) if number.base10_parse::<u64>().is_ok() => Ok(number.clone()),
        _ => Err(Error::new(value.span(), "a whole number is expected here")),
    }
}

/// Returns the nanoseconds of a span of time such as `"5s"` or `"250ms"`.
fn span_of_time(value: &Expr) -> Result<u64> {
    let message = "a span of time is expected here, such as `\"5s\"` or `\"250ms\"`";
    let error = || Error::new(value.span(), message);
    let Some(Lit::Str(text)) = literal(value) else { return Err(error()) };
    let text = text.value();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        _ => return Err(error()),
    };
    let number = digits.trim().parse::<u64>().ok();
    number.and_then(|number| number.checked_mul(unit)).ok_or_else(error)
}

fn switch(value: &Expr) -> Result<bool> {
    match literal(value) {
        Some(Lit::Bool(switch)) => Ok(switch.value),
        _ => Err(Error::new(value.span(), "`true` or `false` is expected here")),
    }
}

fn flavor(value: &Expr) -> Result<Flavor> {
    let name = match literal(value) {
        Some(Lit::Str(name)) => name.value(),
        _ => String::new(),
    };
    match name.as_str() {
        "current_thread" => Ok(Flavor::CurrentThread),
        "multi_thread" => Ok(Flavor::MultiThread),
        _ => {
            let message = "`\"multi_thread\"` or `\"current_thread\"` is expected here";
            Err(Error::new(value.span(), message))
        }
    }
}

fn path(value: &Expr) -> Result<Path> {
    let error = || Error::new(value.span(), "the path of the crate `runyard` is expected here");
    match (value, literal(value)) {
        (Expr::Path(path), _) if path.qself.is_none() => Ok(path.path.clone()),
        (_, Some(Lit::Str(path))) => path.parse().map_err(|_| error()),
        _ => Err(error()),
    }
}

fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(literal) => Some(&literal.lit),
        _ => None,
    }
}
