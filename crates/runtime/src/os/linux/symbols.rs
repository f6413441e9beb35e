//! The functions at given addresses, for readers of reports.

use std::fmt;

/// Writes a line for each function that was inlined at this return address, and one for the function itself, with their
/// places in the source if the debug information has them. Takes locks and allocates.
pub(crate) fn describe(nth: usize, address: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (mut result, mut first) = (Ok(()), true);
    let mut number = |f: &mut fmt::Formatter<'_>| match std::mem::take(&mut first) {
        true => write!(f, "{nth:4}: "),
        false => write!(f, "      "),
    };
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        let mut line = || {
            number(f)?;
            match symbol.name() {
                Some(name) => writeln!(f, "{name:#}")?,
                None => writeln!(f, "{address:#x}")?,
            }
            if let Some((file, line)) = symbol.filename().zip(symbol.lineno()) {
                writeln!(f, "             at {}:{line}", file.display())?;
            }
            Ok(())
        };
        result = result.and_then(|()| line());
    });
    result?;
    if first { writeln!(f, "{nth:4}: {address:#x}") } else { Ok(()) }
}
