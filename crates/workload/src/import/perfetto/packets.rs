//! The packets of a stream, one after the other.

use std::io::{self, BufRead, Read};

/// The tag before each packet: field 1 of the trace, a message.
pub(super) const TAG: u8 = 0x0a;

/// A packet longer than this is none, in bytes.
const LONGEST_PACKET: u64 = 1 << 28;

/// The bits of a tag that tell the kind of its field: 0 a number, 1 eight bytes, 2 a length and as many bytes, 5 four bytes.
const KIND: u64 = 7;

/// What is told of a broken stream.
const CUT_OFF: &str = "the file ends within this packet";
const NO_PACKET: &str = "no packet of Perfetto begins here";

/// What comes next in a stream.
pub(super) enum Found<'p> {
    /// A packet.
    Packet(&'p [u8]),
    /// The regular end.
    End,
    /// Something that no trace has, or an end within a packet.
    Broken(&'static str),
}

/// A stream of packets.
pub(super) struct Packets<'f> {
    from: &'f mut dyn BufRead,
    bytes: Vec<u8>,
}

/// What a number of the stream is.
enum Number {
    Is(u64),
    End,
    CutOff,
    TooLong,
}

impl<'f> Packets<'f> {
    pub(super) fn new(from: &'f mut dyn BufRead) -> Packets<'f> {
        Packets { from, bytes: Vec::new() }
    }

    /// Returns the next packet. Fields of the trace that are no packets are passed over.
    ///
    /// # Errors
    /// If reading fails.
    pub(super) fn next(&mut self) -> io::Result<Found<'_>> {
        loop {
            let tag = match self.number()? {
                Number::Is(tag) => tag,
                Number::End => return Ok(Found::End),
                Number::CutOff | Number::TooLong => return Ok(Found::Broken(NO_PACKET)),
            };
            let length = match tag & KIND {
                1 => 8,
                5 => 4,
                kind @ (0 | 2) => match self.number()? {
                    Number::Is(length) if kind == 2 && length <= LONGEST_PACKET => length,
                    // A field that is a number has now been read.
                    Number::Is(_) if kind == 0 => 0,
                    Number::End | Number::CutOff => return Ok(Found::Broken(CUT_OFF)),
                    Number::Is(_) | Number::TooLong => return Ok(Found::Broken(NO_PACKET)),
                },
                _ => return Ok(Found::Broken(NO_PACKET)),
            };
            self.bytes.clear();
            let read = Read::take(&mut *self.from, length).read_to_end(&mut self.bytes)?;
            if (read as u64) < length {
                return Ok(Found::Broken(CUT_OFF));
            }
            if tag == u64::from(TAG) {
                return Ok(Found::Packet(&self.bytes));
            }
        }
    }

    /// Reads a number: seven bits in each byte, the lowest first, and a bit that says that more follow.
    fn number(&mut self) -> io::Result<Number> {
        let mut number = 0;
        for nth in 0..u64::BITS.div_ceil(7) {
            let mut byte = [0];
            if self.from.read(&mut byte)? == 0 {
                return Ok(if nth == 0 { Number::End } else { Number::CutOff });
            }
            number |= u64::from(byte[0] & 0x7f) << (7 * nth);
            if byte[0] < 0x80 {
                return Ok(Number::Is(number));
            }
        }
        Ok(Number::TooLong)
    }
}
