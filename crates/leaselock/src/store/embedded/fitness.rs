//! Which file systems can carry locks.
//!
//! A lock file needs `flock` that excludes, and all its users need the same clock. File systems that several machines
//! share guarantee neither.

/// Names a file system that cannot carry locks, by the type number of `statfs`; `None` when it can.
#[cfg(target_os = "linux")]
pub(super) fn unfit(kind: u64) -> Option<&'static str> {
    // The number is 32 bits wide and comes with its sign on some machines.
    match kind & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0xff53_4d42 => Some("CIFS"),
        0x517b | 0xfe53_4d42 => Some("SMB"),
        0x6573_5546 => Some("FUSE or virtiofs"),
        0x0102_1997 => Some("9p"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        0x7375_7245 => Some("Coda"),
        0x564c => Some("NCP"),
        0x786f_4256 => Some("a VirtualBox shared folder"),
        0xbacb_acbc => Some("a VMware shared folder"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636f => Some("OCFS2"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        _ => None,
    }
}

/// Returns the type number, which is of a signed type on most machines.
#[cfg(target_os = "linux")]
#[expect(
    clippy::cast_sign_loss,
    reason = "a bit pattern, of which the lower half counts"
)]
#[allow(clippy::unnecessary_cast, reason = "its type differs between machines")]
pub(super) fn kind(found: &rustix::fs::StatFs) -> u64 {
    found.f_type as u64
}

/// Returns the usual name of a fit file system, for display.
#[cfg(target_os = "linux")]
pub(super) fn name(kind: u64) -> String {
    match kind & 0xffff_ffff {
        0xef53 => "ext4".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x9123_683e => "btrfs".to_owned(),
        0x2fc1_2fc1 => "zfs".to_owned(),
        0x0102_1994 => "tmpfs".to_owned(),
        0x794c_7630 => "overlayfs".to_owned(),
        0xf2f5_2010 => "f2fs".to_owned(),
        other => unfit(other).map_or_else(|| format!("type {other:#x}"), str::to_owned),
    }
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
        ] {
            assert!(unfit(kind).is_some(), "{kind:#x}");
        }
        assert_eq!(unfit(0xffff_ffff_ff53_4d42), Some("CIFS"), "with its sign");
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
            assert_eq!(unfit(kind), None, "{kind:#x} {}", name(kind));
        }
    }
}
