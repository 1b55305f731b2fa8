//! The events of the decoder.

use crate::command::{AppendMessage, AppendPart, TaggedCommand};

/// The next thing that a client sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The input is incomplete; more of it is needed.
    More,
    /// The client waits for `+ OK` before it sends the literal of an argument. The decoder has
    /// accepted the literal; [`Decoder::abandon`](super::Decoder::abandon) refuses it.
    Continue,
    /// A complete command.
    Command(TaggedCommand),
    /// A command that is not valid, or is too long. An APPEND that had begun has ended.
    ///
    /// The answer is `tag BAD [code] text`, or `* BAD` without a tag. The rest of the command is
    /// skipped, literals included.
    Bad {
        /// The tag, if the command has a valid one.
        tag: Option<String>,
        /// The response code, without brackets.
        code: Option<&'static str>,
        /// `true` if the answer is NO instead of BAD: the grammar is right, the value is not.
        is_no: bool,
        /// A text for the response, in one line of printable ASCII.
        text: String,
    },
    /// A message of APPEND or REPLACE begins. Its parts follow, then [`Event::MessageEnd`]; after
    /// the last message, [`Event::Command`].
    Message(AppendMessage),
    /// A part of the message: a literal, whose bytes follow as [`Event::Data`], or a URL.
    Part {
        /// The part.
        part: AppendPart,
        /// `true` if the client waits for `+ OK` before it sends the bytes;
        /// [`Decoder::abandon`](super::Decoder::abandon) refuses them.
        is_sync: bool,
    },
    /// Bytes of the literal, at most [`crate::limits::DATA_PIECE_LEN`].
    Data(Vec<u8>),
    /// The message is complete.
    MessageEnd,
    /// A line without its end, after [`Decoder::expect_line`](super::Decoder::expect_line).
    Line(Vec<u8>),
    /// Input that is over a limit and cannot be skipped. The answer is `* BYE text`, and the
    /// connection ends: the decoder reads nothing more.
    Fatal(String),
}
