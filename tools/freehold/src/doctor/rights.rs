//! Rights that a program file gives to the user who starts it. The loader of such a program ignores LD_PRELOAD
//! (the kernel tells it so by AT_SECURE), and Freehold itself ignores its options there.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::report::Finding;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
/// The extended attribute that holds a file's capabilities.
const CAPABILITIES: &str = "security.capability";

/// What about the rights of `program` makes its loader ignore a preloaded library.
pub fn examine(program: &Path) -> Vec<Finding> {
    let Ok(metadata) = std::fs::metadata(program) else {
        return Vec::new();
    };
    let me = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let mut findings: Vec<Finding> = special_bits(&metadata, me).into_iter().collect();
    // Large enough for every version of the structure; any error means that there is no such attribute.
    let mut value = [0u8; 64];
    if rustix::fs::getxattr(program, CAPABILITIES, &mut value[..]).is_ok_and(|length| length > 0) {
        findings.push(capabilities(rustix::process::getuid().is_root()));
    }
    findings
}

/// The setuid and setgid bits matter only when they change who the caller is: a setuid-root program that
/// root starts is an ordinary one. `me` is the effective user and group of the caller.
fn special_bits(metadata: &Metadata, me: (u32, u32)) -> Option<Finding> {
    let mode = metadata.permissions().mode();
    let changes_user = mode & SETUID != 0 && metadata.uid() != me.0;
    let changes_group = mode & SETGID != 0 && metadata.gid() != me.1;
    if changes_user || changes_group {
        let bit = if changes_user { "setuid" } else { "setgid" };
        return Some(
            Finding::blocks(
                "rights",
                format!("the program is {bit}, so its loader ignores LD_PRELOAD"),
            )
            .advise("link it with libfreehold; its options are ignored there all the same"),
        );
    }
    if mode & (SETUID | SETGID) != 0 {
        let text = "the program is setuid or setgid; for other users LD_PRELOAD would be ignored";
        return Some(Finding::note("rights", text));
    }
    None
}

/// A file's capabilities give root nothing that it does not have, and then the kernel sees no danger.
fn capabilities(root: bool) -> Finding {
    if root {
        let text =
            "the file has capabilities; for users other than root LD_PRELOAD would be ignored";
        return Finding::note("rights", text);
    }
    Finding::blocks(
        "rights",
        "the file has capabilities, so its loader ignores LD_PRELOAD",
    )
    .advise("link it with libfreehold, or take the capabilities away with setcap -r")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Level;
    use std::fs;

    fn file_with_mode(mode: u32) -> (tempfile::TempDir, Metadata) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        (dir, metadata)
    }

    #[test]
    fn a_plain_program_has_nothing_to_say() {
        let (_dir, metadata) = file_with_mode(0o755);
        assert_eq!(
            special_bits(&metadata, (metadata.uid(), metadata.gid())),
            None
        );
    }

    #[test]
    fn setuid_blocks_only_for_somebody_else() {
        let (_dir, metadata) = file_with_mode(0o4755);
        let owner = (metadata.uid(), metadata.gid());
        let other = (metadata.uid() + 1, metadata.gid());
        assert_eq!(special_bits(&metadata, owner).unwrap().level, Level::Note);
        assert_eq!(special_bits(&metadata, other).unwrap().level, Level::Blocks);
    }

    #[test]
    fn capabilities_block_for_all_but_root() {
        assert_eq!(capabilities(false).level, Level::Blocks);
        assert_eq!(capabilities(true).level, Level::Note);
    }

    #[test]
    fn setgid_blocks_for_another_group() {
        let (_dir, metadata) = file_with_mode(0o2755);
        let other = (metadata.uid(), metadata.gid() + 1);
        let finding = special_bits(&metadata, other).unwrap();
        assert_eq!(finding.level, Level::Blocks);
        assert!(finding.text.contains("setgid"));
    }
}
