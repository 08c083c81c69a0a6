//! Which file systems can carry locks.
//!
//! A lock file needs `flock` that excludes, and all its users need the same clock. File systems that several machines
//! share guarantee neither.

/// File systems that cannot carry locks, by the type number of `statfs`.
pub(super) const UNFIT: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0x6573_5546, "FUSE or virtiofs"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x786f_4256, "a VirtualBox shared folder"),
    (0xbacb_acbc, "a VMware shared folder"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0xaad7_aaea, "PanFS"),
    (0xbeef_dead, "StorNext"),
    (0x6163_6673, "ACFS"),
    (0x0131_11a8, "IBRIX"),
    (0x7c7c_6673, "a Parallels shared folder"),
];
/// The usual ones that can.
pub(super) const FIT: &[(u64, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlayfs"),
    (0xf2f5_2010, "f2fs"),
];

/// Finds the name of a file system in a table. The number is 32 bits wide and comes with its sign on some machines.
pub(super) fn find(table: &[(u64, &'static str)], kind: u64) -> Option<&'static str> {
    let found = table.iter().find(|(known, _)| *known == kind & 0xffff_ffff);
    found.map(|(_, name)| *name)
}

/// Returns the type number, which is of a signed type on most machines.
#[expect(
    clippy::cast_sign_loss,
    reason = "a bit pattern, of which the lower half counts"
)]
#[allow(clippy::unnecessary_cast, reason = "its type differs between machines")]
pub(super) fn kind(found: &rustix::fs::StatFs) -> u64 {
    found.f_type as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_several_machines_see_are_unfit() {
        for kind in [
            0x6969,
            0xff53_4d42,
            0xfe53_4d42,
            0x517b,
            0x6573_5546,
            0x0102_1997,
            0x1983_0326,
            0xaad7_aaea,
            0xbeef_dead,
            0x6163_6673,
            0x0131_11a8,
            0x7c7c_6673,
        ] {
            assert!(find(UNFIT, kind).is_some(), "{kind:#x}");
        }
        let with_its_sign = 0xffff_ffff_ff53_4d42;
        assert_eq!(find(UNFIT, with_its_sign), Some("CIFS"));
    }

    #[test]
    fn local_file_systems_are_fit() {
        for kind in [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x2fc1_2fc1,
            0x0102_1994,
            0x794c_7630,
            0x1234,
        ] {
            assert_eq!(find(UNFIT, kind), None, "{kind:#x}");
        }
    }
}
