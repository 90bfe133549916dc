//! Where the messages of a gRPC body begin and end.

/// Bytes before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Follows the messages of one body.
#[derive(Debug, Default)]
pub(super) struct Messages {
    prefix: [u8; PREFIX],
    prefix_bytes: usize,
    /// Bytes of the current message that have not arrived.
    rest: usize,
}

impl Messages {
    /// Takes bytes as they arrive. Gives how many of them belong to messages that are complete now; the others are the
    /// beginning of the next one.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        let mut complete = 0;
        while at < bytes.len() {
            if self.prefix_bytes < PREFIX {
                let taken = (PREFIX - self.prefix_bytes).min(bytes.len() - at);
                self.prefix[self.prefix_bytes..][..taken].copy_from_slice(&bytes[at..][..taken]);
                self.prefix_bytes += taken;
                at += taken;
                if self.prefix_bytes < PREFIX {
                    break;
                }
                let [_, length @ ..] = self.prefix;
                self.rest = u32::from_be_bytes(length) as usize;
            }
            let taken = self.rest.min(bytes.len() - at);
            self.rest -= taken;
            at += taken;
            if self.rest == 0 {
                self.prefix_bytes = 0;
                complete = at;
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: u8) -> Vec<u8> {
        let mut message = vec![0, 0, 0, 0, length];
        message.resize(PREFIX + usize::from(length), 7);
        message
    }

    #[test]
    fn messages_end_where_they_say_however_they_are_cut() {
        let body = [message(3), message(0), message(200)].concat();
        let ends = [8, 13, 218];
        for piece in 1..=body.len() {
            let mut messages = Messages::default();
            let mut seen = 0;
            let mut complete = 0;
            for bytes in body.chunks(piece) {
                let more = messages.take(bytes);
                if more > 0 {
                    complete = seen + more;
                }
                seen += bytes.len();
                let expected = ends.iter().rfind(|end| **end <= seen);
                assert_eq!(
                    complete,
                    expected.copied().unwrap_or(0),
                    "pieces of {piece}"
                );
            }
        }
    }
}
