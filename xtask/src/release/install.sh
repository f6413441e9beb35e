#!/bin/sh
# Installs the command of a release of Runyard, with its manual and its completions:
#
#   sh install.sh [--from PLACE] [--to PREFIX]
#
# PLACE has the files of the release: a folder, or an address of http. Without it, it is the folder of this script. PREFIX is
# ~/.local without it. Nothing is installed unless the archive has the sum that SHA256SUMS says.
set -eu

from=$(dirname "$0")
to=$HOME/.local
while [ $# -gt 0 ]; do
    case $1 in
        --from) from=${2:?"--from takes a folder or an address"} && shift 2 ;;
        --to) to=${2:?"--to takes a folder"} && shift 2 ;;
        *) echo "install.sh: unexpected argument $1; it takes --from PLACE and --to PREFIX" >&2 && exit 2 ;;
    esac
done

case $(uname -s)-$(uname -m) in
    Linux-x86_64) target=x86_64-unknown-linux-musl ;;
    Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
    *) echo "install.sh: a release has programs for Linux on x86-64 and 64-bit Arm; elsewhere: cargo install --path crates/cli" >&2 && exit 1 ;;
esac

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# get FILE: brings a file of the release into the folder.
get() {
    case $from in
        http://* | https://*)
            if command -v curl >/dev/null; then
                curl -fsSL -o "$folder/$1" "$from/$1"
            else
                wget -q -O "$folder/$1" "$from/$1"
            fi
            ;;
        *) cp "$from/$1" "$folder/$1" ;;
    esac
}

get SHA256SUMS
grep "  runyard-.*-$target\.tar\.gz\$" "$folder/SHA256SUMS" >"$folder/sum" || {
    echo "install.sh: $from/SHA256SUMS names no archive for $target" >&2
    exit 1
}
archive=$(sed 's/^[0-9a-f]*  //' "$folder/sum")
get "$archive"
(cd "$folder" && sha256sum --check --quiet sum)
tar -xzf "$folder/$archive" -C "$folder"
made=$folder/${archive%.tar.gz}

# put FILE PLACE: installs a file below the prefix.
put() {
    mkdir -p "$(dirname "$to/$2")"
    cp "$1" "$to/$2"
}

put "$made/runyard" bin/runyard
chmod 755 "$to/bin/runyard"
for page in "$made"/man/*.1; do
    put "$page" "share/man/man1/$(basename "$page")"
done
put "$made/completions/runyard.bash" share/bash-completion/completions/runyard
put "$made/completions/_runyard" share/zsh/site-functions/_runyard
put "$made/completions/runyard.fish" share/fish/vendor_completions.d/runyard.fish

echo "installed $("$to/bin/runyard" --version) as $to/bin/runyard"
case :$PATH: in
    *:"$to/bin":*) ;;
    *) echo "$to/bin is not in PATH" ;;
esac
