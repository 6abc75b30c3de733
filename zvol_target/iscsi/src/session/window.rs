// SPDX-License-Identifier: Apache-2.0
//! The command window (RFC 7143 4.2.2.1): `CmdSN`, `ExpCmdSN`, `MaxCmdSN`.

/// Limit of running commands of a session, without immediate ones.
pub(crate) const COMMAND_WINDOW: u32 = 512;

/// Whether `a` is before `b` in serial number arithmetic (RFC 1982).
fn before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

/// Position of a command in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The next command.
    Next,
    /// After a gap.
    Early,
    /// Outside the window or a duplicate: to be ignored without a response.
    Ignored,
}

/// The window of one session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandWindow {
    expected: u32,
    maximum: u32,
    /// `MaxCmdSN` as last sent to the initiator.
    announced: u32,
}

impl CommandWindow {
    /// `first` is the `CmdSN` of the login, and the first one expected after it.
    pub fn new(first: u32) -> Self {
        let maximum = first.wrapping_add(COMMAND_WINDOW - 1);
        Self {
            expected: first,
            maximum,
            announced: maximum,
        }
    }

    /// `ExpCmdSN`
    pub fn expected(self) -> u32 {
        self.expected
    }

    /// `MaxCmdSN`, for a PDU to the initiator.
    pub fn announce_maximum(&mut self) -> u32 {
        self.announced = self.maximum;
        self.maximum
    }

    /// Whether the window has opened since the last announcement.
    pub fn is_unannounced(self) -> bool {
        self.announced != self.maximum
    }

    /// Classifies a non-immediate command.
    pub fn judge(self, cmd_sn: u32) -> Arrival {
        if cmd_sn == self.expected && !before(self.maximum, cmd_sn) {
            Arrival::Next
        } else if before(self.expected, cmd_sn) && !before(self.maximum, cmd_sn) {
            Arrival::Early
        } else {
            Arrival::Ignored
        }
    }

    /// Advances after the next command was delivered.
    pub fn advance(&mut self) {
        self.expected = self.expected.wrapping_add(1);
    }

    /// Opens the window by one, after a delivered command has ended.
    pub fn release(&mut self) {
        self.maximum = self.maximum.wrapping_add(1);
    }

    /// Whether command `a` is before command `b`.
    pub fn precedes(a: u32, b: u32) -> bool {
        before(a, b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_closes_and_opens_over_the_wrap() {
        let first = u32::MAX - 10;
        let mut window = CommandWindow::new(first);
        for sent in 0..COMMAND_WINDOW {
            assert_eq!(window.judge(first.wrapping_add(sent)), Arrival::Next);
            window.advance();
        }
        let next = first.wrapping_add(COMMAND_WINDOW);
        assert_eq!(window.judge(next), Arrival::Ignored);
        // Closed: MaxCmdSN = ExpCmdSN - 1.
        assert_eq!(window.announce_maximum().wrapping_add(1), window.expected());
        window.release();
        assert!(window.is_unannounced());
        assert_eq!(window.judge(next), Arrival::Next);
        assert_eq!(window.judge(next.wrapping_add(1)), Arrival::Ignored);
    }

    #[test]
    fn old_commands_are_ignored_and_later_ones_wait() {
        let mut window = CommandWindow::new(5);
        window.advance();
        assert_eq!(window.judge(5), Arrival::Ignored);
        assert_eq!(window.judge(6), Arrival::Next);
        assert_eq!(window.judge(7), Arrival::Early);
        assert_eq!(window.judge(5 + COMMAND_WINDOW), Arrival::Ignored);
        assert!(CommandWindow::precedes(u32::MAX, 0) && !CommandWindow::precedes(6, 6));
    }
}
