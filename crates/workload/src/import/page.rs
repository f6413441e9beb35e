//! The page that systrace writes: HTML with a viewer, and the text of ftrace between two lines of it.
//!
//! | written by | the text is between |
//! |---|---|
//! | systrace of Android and Chrome | `<script class="trace-data" type="application/text">` and `</script>` |
//! | systrace before 2014 | `var linuxPerfData = "\` and `";`; each line may end in `\n\`, which [`parse`](super::parse) cuts off |
//!
//! A page may have several scripts with data. Some have Chrome's own events, as JSON, or a table of processes.

/// How a file begins that is HTML, in lower case.
const BEGINS: [&[u8]; 2] = [b"<!doctype html", b"<html"];

/// How data begin that are no text of ftrace.
const OTHER: [&str; 3] = ["{", "[", "PROCESS DUMP"];

/// What a line of a page is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The viewer.
    Outside,
    /// The begin of a script with data, of which no line has told what it is.
    Begin,
    Text,
    /// Data of another kind.
    Other,
    /// A text in a string of JavaScript.
    Quoted,
}

/// The state while the lines of a page are read.
#[derive(Debug)]
pub(super) struct Page {
    part: Part,
}

impl Page {
    /// Returns a page if a file begins as one.
    pub(super) fn begin(bytes: &[u8]) -> Option<Page> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii_start();
        let is_html = |begin: &&[u8]| {
            bytes.get(..begin.len()).is_some_and(|bytes| bytes.eq_ignore_ascii_case(begin))
        };
        BEGINS.iter().any(is_html).then_some(Page { part: Part::Outside })
    }

    /// Returns the part of a line that is a recording's text, with the number of characters before it.
    pub(super) fn data<'l>(&mut self, line: &'l str) -> Option<(usize, &'l str)> {
        let data = match self.part {
            Part::Outside => self.enter(line)?,
            _ => line,
        };
        let before = line[..line.len() - data.len()].chars().count();
        if self.part == Part::Quoted {
            let ended = data.strip_suffix("\\n\";").or_else(|| data.strip_suffix("\";"));
            let is_script = !data.contains("</script>");
            if ended.is_some() || !is_script {
                self.part = Part::Outside;
            }
            return is_script.then(|| (before, ended.unwrap_or(data)));
        }
        let (data, ends) = match data.split_once("</script>") {
            Some((data, _)) => (data, true),
            None => (data, false),
        };
        if self.part == Part::Begin && !data.trim().is_empty() {
            let is_other = OTHER.iter().any(|begin| data.trim_start().starts_with(begin));
            self.part = if is_other { Part::Other } else { Part::Text };
        }
        let is_text = self.part == Part::Text;
        if ends {
            self.part = Part::Outside;
        }
        is_text.then_some((before, data))
    }

    /// Returns what follows on a line with which data begin.
    fn enter<'l>(&mut self, line: &'l str) -> Option<&'l str> {
        let begin = line.trim_start();
        if begin.starts_with("var linuxPerfData") && begin.ends_with("\"\\") {
            self.part = Part::Quoted;
            return None;
        }
        // The viewer has these words too, but not where a line begins.
        let (attributes, data) = begin.strip_prefix("<script")?.split_once('>')?;
        if !attributes.contains("trace-data") {
            return None;
        }
        self.part = Part::Begin;
        Some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(text: &str) -> Vec<(usize, usize, &str)> {
        let mut page = Page::begin(text.as_bytes()).unwrap();
        let lines = text.lines().enumerate();
        let found = lines.filter_map(|(nth, line)| {
            let (before, data) = page.data(line)?;
            Some((nth + 1, before, data))
        });
        found.collect()
    }

    #[test]
    fn the_text_of_a_page_is_found() {
        let page = "<!DOCTYPE html>\n<script>\nif(/^<script class=\"trace-data\">$/)\n</script>\n\
            <script class=\"trace-data\" type=\"application/text\">\n# tracer: nop\nb</script>\n<p>\n\
            <script class=\"trace-data\" type=\"application/text\">{\"a\":\n1}\n</script>\n\
            <script class=\"trace-data\" type=\"application/text\">\nPROCESS DUMP\nroot\n</script>\n\
            <script type='application/text' class='trace-data'>c\n</script>\nd\n";
        let opened = "<script type='application/text' class='trace-data'>".len();
        assert_eq!(
            data(page),
            [(6, 0, "# tracer: nop"), (7, 0, "b"), (16, opened, "c"), (17, 0, "")]
        );
    }

    #[test]
    fn the_text_of_an_old_page_is_found() {
        let page =
            "\n<HTML>\n  var linuxPerfData = \"\\\n# tracer: nop\\n\\\n a-1\\n\";\n b\\n\\\n";
        assert_eq!(data(page), [(4, 0, "# tracer: nop\\n\\"), (5, 0, " a-1")]);
        let unquoted = "<html>\n  var linuxPerfData = \"\\\n a-1\n  </script>\n b\n";
        assert_eq!(data(unquoted), [(3, 0, " a-1")]);
    }

    #[test]
    fn other_texts_are_no_page() {
        for text in ["", "<", "# tracer: nop\n<html", "<idle>-0 [000] 1.0: e: x"] {
            assert!(Page::begin(text.as_bytes()).is_none(), "{text}");
        }
    }
}
