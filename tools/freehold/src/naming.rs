//! The options by which a person says how call sites are to be named: the same in every command that names some.

use profile_file::Snapshot;
use profile_file::naming::{Naming, Skip};

#[derive(clap::Args, Clone, Debug, Default)]
pub struct NamingArgs {
    /// Name no call site after a function that this matches, but after its caller. Can be given several times.
    #[arg(long, value_name = "REGEX")]
    skip: Vec<Skip>,

    /// Fetch debug information that is not on this machine, by build-id, from the servers of DEBUGINFOD_URLS.
    #[arg(long)]
    debuginfod: bool,
}

impl NamingArgs {
    pub fn naming(&self) -> Naming {
        Naming {
            skip: self.skip.clone(),
            debuginfod: self.debuginfod,
        }
    }

    /// The snapshot, with its sites to be named so.
    pub fn of(&self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.naming = self.naming();
        snapshot
    }
}
