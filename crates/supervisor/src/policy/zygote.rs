//! Whether an instance is forked from its service's zygote, waits for it, or is started in the ordinary way.
//!
//! ```text
//!           boot            ready
//!  Absent ───────▶ Booting ───────▶ Ready ──▶ forks
//!    ▲ ended          │ ended         │ ended
//!    └────────────────┴───────────────┘      refused, or ended MAX_ZYGOTE_ENDS times without a fork ▶ GivenUp ──▶ ordinary starts
//! ```
//! A wrong `preload` makes starts slow, never impossible; people's restart, stop and start begin anew.

/// Ends of a zygote without a fork in between before it is given up.
pub(crate) const MAX_ZYGOTE_ENDS: u32 = 3;

/// How the next instance is to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In the ordinary way.
    Execute,
    /// By the zygote that is ready.
    Fork,
    /// By the zygote that is about to be.
    Wait,
    /// By a zygote that is started now.
    Boot,
}

/// The zygote of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ZygoteStage {
    /// There is none; the next start begins with one.
    #[default]
    Absent,
    /// It imports.
    Booting,
    /// It forks.
    Ready,
    /// It would be of no use.
    GivenUp,
}

/// What is known of the zygotes of a service with `preload`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zygotes {
    stage: ZygoteStage,
    /// Ends in a row without a fork in between.
    ends: u32,
}

impl Zygotes {
    pub(crate) fn stage(&self) -> ZygoteStage {
        self.stage
    }

    /// How to start an instance.
    pub(crate) fn way(&self) -> Way {
        match self.stage {
            ZygoteStage::Absent => Way::Boot,
            ZygoteStage::Booting => Way::Wait,
            ZygoteStage::Ready => Way::Fork,
            ZygoteStage::GivenUp => Way::Execute,
        }
    }

    pub(crate) fn booting(&mut self) {
        self.stage = ZygoteStage::Booting;
    }

    pub(crate) fn ready(&mut self) {
        if self.stage == ZygoteStage::Booting {
            self.stage = ZygoteStage::Ready;
        }
    }

    pub(crate) fn forked(&mut self) {
        self.ends = 0;
    }

    /// It says that it cannot be one.
    pub(crate) fn refused(&mut self) {
        self.stage = ZygoteStage::GivenUp;
    }

    /// It ended by itself.
    pub(crate) fn ended(&mut self) {
        self.ends += 1;
        if self.stage != ZygoteStage::GivenUp {
            self.stage = if self.ends < MAX_ZYGOTE_ENDS { ZygoteStage::Absent } else { ZygoteStage::GivenUp };
        }
    }

    /// It was ended, because people want new ones.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_start_boots_it_and_later_ones_wait_and_fork() {
        let mut zygotes = Zygotes::default();
        assert_eq!(zygotes.way(), Way::Boot);
        zygotes.booting();
        assert_eq!(zygotes.way(), Way::Wait);
        zygotes.ready();
        assert_eq!(zygotes.way(), Way::Fork);
        zygotes.ended();
        assert_eq!(zygotes.way(), Way::Boot);
    }

    #[test]
    fn it_is_given_up_when_it_ends_without_a_fork_again_and_again() {
        let mut zygotes = Zygotes::default();
        for _ in 0..10 {
            zygotes.booting();
            zygotes.ready();
            zygotes.forked();
            zygotes.ended();
            assert_eq!(zygotes.way(), Way::Boot, "what forks is of use");
        }
        for _ in 1..MAX_ZYGOTE_ENDS {
            assert_eq!(zygotes.way(), Way::Boot);
            zygotes.booting();
            zygotes.ended();
        }
        assert_eq!(zygotes.way(), Way::Execute);
        zygotes.ended();
        assert_eq!(zygotes.way(), Way::Execute);
        zygotes.reset();
        assert_eq!(zygotes, Zygotes::default());
    }

    #[test]
    fn a_refusal_is_final() {
        let mut zygotes = Zygotes::default();
        zygotes.booting();
        zygotes.refused();
        zygotes.ready();
        zygotes.ended();
        assert_eq!((zygotes.way(), zygotes.stage()), (Way::Execute, ZygoteStage::GivenUp));
    }
}
