//! Roots in which nothing else is installed: what the binary and the packages do there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::stage::program;
use super::tools::{run_in_root, staged, stdout};

/// In a root with the binary alone, /proc and /dev/null, as a container `FROM scratch` is.
const ALONE: &str = r#"
leaselock() { chroot . /usr/bin/leaselock --url "$@"; }
[ "$(leaselock file:///locks run job -- /usr/bin/leaselock --version | cut -d' ' -f1)" = leaselock ]
leaselock file:///locks doctor
# No server listens there. The first name is in /etc/hosts, and the other one is nowhere.
leaselock redis://locks.internal:1 run -n job -- /nothing 2>&1 | grep 'locks.internal:1.*refused'
leaselock redis://nowhere.invalid:1 run -n job -- /nothing 2>&1 | grep 'nowhere.invalid:1.*lookup'
"#;

/// What lies in a clean root of Debian.
const FILES: &str = r#"
files() {
    find / -xdev \( -path /proc -o -path /tmp -o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /var/log \
        -o -path /var/cache \) -prune -o -print | sort
}
"#;

/// Before a package is installed there.
const BEFORE: &str = r#"
. /etc/os-release && echo "$PRETTY_NAME, glibc $(ldd --version | sed -n '1s/.* //p')"
# A static binary that loaded this library of an older system would abort.
echo '127.0.0.1 localhost' > /etc/hosts
sed -i 's/^hosts:.*/hosts: myhostname files dns/' /etc/nsswitch.conf
files > /tmp/before
"#;

const USE: &str = r#"
export LEASELOCK_URL=file:///tmp/locks
[ "$(leaselock run nightly -- sh -c 'echo "$LEASELOCK_NAME"')" = nightly ]
leaselock doctor
[ "$(man -w leaselock-run)" = /usr/share/man/man1/leaselock-run.1.gz ]
man leaselock-run | grep -q -- --kill-after
man leaselock | grep -q 'leaselock-run(1)'
leaselock acquire --ttl 10m held-name > /tmp/handle
offered=$(bash -c '
    . /usr/share/bash-completion/bash_completion
    _completion_loader leaselock || true
    COMP_LINE="leaselock status h" COMP_POINT=18 COMP_WORDS=(leaselock status h) COMP_CWORD=2
    _leaselock_or_names leaselock h status
    echo "${COMPREPLY[@]}"')
[ "$offered" = held-name ]
{ leaselock --url redis://localhost:1 run -n job -- true 2>&1 || true; } | grep 'localhost:1.*refused'
[ -s /usr/share/leaselock/leaselock.py ] && [ -s /usr/share/leaselock/leaselock.mjs ]
"#;

/// What the removal leaves.
const AFTER: &str = r#"
files > /tmp/after
diff /tmp/before /tmp/after
"#;

/// Run from outside, because the root has no rpm. The argument of each step is what is done inside.
const RPM: &str = r#"
of_root() { rpm --root "$PWD" --dbpath /var/lib/rpm "$@"; }
inside() { chroot . bash -euxo pipefail -c "$1"; }
of_root --initdb
# Debian lacks what systems with rpm have in their package filesystem.
mkdir -p usr/share/licenses usr/share/zsh/site-functions usr/share/fish/vendor_completions.d
inside "$1"
of_root --install --nodeps tmp/leaselock.rpm # its database knows no shell
of_root --verify --nodeps leaselock
inside "$2"
of_root --erase leaselock
inside "$3"
"#;

/// The binary, and what it may need of a system.
pub(super) fn scratch() -> Result<String, String> {
    if let Some(why) = not_here() {
        return Ok(why);
    }
    let root = fresh("scratch")?;
    let put = |file: &str, text: &str| {
        let file = root.join(file);
        let folder = file.parent().unwrap_or(&root);
        fs::create_dir_all(folder).and_then(|()| fs::write(&file, text))
    };
    let put =
        put("etc/hosts", "127.0.0.1 locks.internal\n").and_then(|()| put("etc/resolv.conf", ""));
    put.map_err(|error| error.to_string())?;
    let bin = root.join("usr/bin");
    let copied = fs::create_dir_all(&bin).and_then(|()| fs::copy(program(), bin.join("leaselock")));
    copied.map_err(|error| error.to_string())?;
    let mut script = Command::new("unshare");
    script.args(["--mount", "sh", "-euxc"]);
    script.arg(format!(
        "mkdir -p proc dev && mount -t proc proc proc && mknod dev/null c 1 3\n{ALONE}"
    ));
    script.current_dir(&root);
    crate::cargo::run(script)?;
    Ok("run, doctor, names of hosts".to_owned())
}

/// The deb in a root of this release.
pub(super) fn deb(suite: &str, deb: &Path) -> Result<String, String> {
    if let Some(why) = not_here() {
        return Ok(why);
    }
    let (install, remove) = (
        "dpkg --install /tmp/leaselock.deb",
        "dpkg --purge leaselock",
    );
    let all = [FILES, BEFORE, install, USE, remove, AFTER].join("\n");
    let enter = "exec chroot . bash -euxo pipefail -c \"$1\"";
    in_root_of(suite, deb, enter, &[&all])
}

/// The rpm in such a root, by the rpm of this system.
pub(super) fn rpm(suite: &str, rpm: &Path) -> Result<String, String> {
    if let Some(why) = not_here() {
        return Ok(why);
    }
    if Command::new("rpm").arg("--version").output().is_err() {
        return Ok("NOT CHECKED: rpm is missing; the package rpm has it".to_owned());
    }
    let (before, after) = ([FILES, BEFORE].concat(), [FILES, AFTER].concat());
    in_root_of(suite, rpm, RPM, &[&before, USE, &after])
}

/// Runs a script in a new root of this release, in which the package lies in /tmp. The release is fetched once.
fn in_root_of(
    suite: &str,
    package: &Path,
    script: &str,
    arguments: &[&str],
) -> Result<String, String> {
    let archive = staged(&format!("{suite}.tar"));
    if !archive.exists() {
        let mut make = Command::new("mmdebstrap");
        make.args([
            "--variant=minbase",
            "--include=man-db,bash-completion,libnss-myhostname",
            suite,
        ]);
        run_in_root({
            make.arg(&archive);
            make
        })
        .map_err(|error| format!("{error}; the package mmdebstrap has it"))?;
    }
    let root = fresh(suite)?;
    let mut unpack = Command::new("tar");
    run_in_root({
        unpack.arg("-xf").arg(&archive).arg("-C").arg(&root);
        unpack
    })?;
    let name = package.file_name().unwrap_or_default();
    let copied = fs::copy(package, root.join("tmp").join(name));
    copied.map_err(|error| error.to_string())?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec"]);
    command
        .arg(format!("mount -t proc proc proc\n{script}"))
        .arg("sh")
        .args(arguments);
    command
        .current_dir(&root)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let said = stdout_there(&mut command)?;
    println!("{said}");
    let system = said.lines().next().unwrap_or_default();
    Ok(format!(
        "{system}: installed, run, doctor, man, completion, removed without a rest"
    ))
}

fn stdout_there(script: &mut Command) -> Result<String, String> {
    let output = script
        .output()
        .map_err(|error| format!("unshare: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Why no root can be entered here.
fn not_here() -> Option<String> {
    let is_root = stdout(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    (!is_root).then(|| "NOT CHECKED: only root may enter another root".to_owned())
}

/// An empty folder, what an earlier run has left taken away.
fn fresh(name: &str) -> Result<PathBuf, String> {
    let root = staged("roots").join(name);
    let removed = match root.exists() {
        true => fs::remove_dir_all(&root),
        false => Ok(()),
    };
    let made = removed.and_then(|()| fs::create_dir_all(&root));
    made.map_err(|error| format!("{}: {error}", root.display()))?;
    Ok(root)
}
