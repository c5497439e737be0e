#!/bin/sh
# Builds encoder.wasm: the encoder of libopus, without imports, for a runtime that
# is written in Go. Needs Debian 12 (bookworm) and, as root:
#
#   apt-get install clang-14 lld-14 wasi-libc libclang-rt-14-dev-wasm32 dpkg-dev
#
# The sources are Debian's package opus 1.5.2-2 (trixie); Debian's patch to it only
# corrects the spelling of messages, so the original tarball is what is built.
# The compiler is 1:14.0.6-12, wasi-libc is 0.0~git20220510.9886d3d-2. With these
# the result is the same byte for byte, and `sha256sum -c SHA256SUMS` says so.
#
#   ./build.sh [tarball]        the tarball, if it is there already; snapshot.debian.org keeps old ones
#   OPT=-O2 OUT=/tmp/fast.wasm ./build.sh ...
#
# -Oz is 4/5 of the size of -O2 and within 10 % of its speed, because the runtime
# compiles the module once more. The commands are run apart from each other because
# the driver would also run wasm-opt if that happens to be installed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
version=1.5.2
tar_sum=65c1d2f78b9f2fb20082c38cbe47c951ad5839345876e46941612ee87f9a7ce1
tarball=${1:-}
out=${OUT:-$here/encoder.wasm}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "$tarball" ]; then
	mkdir -p "$work/lists/partial"
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" >"$work/src.list"
	set -- -o Dir::Etc::sourcelist="$work/src.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$work/lists"
	apt-get "$@" update
	(cd "$work" && apt-get "$@" source --download-only opus=$version-2)
	tarball=$work/opus_$version.orig.tar.gz
fi
echo "$tar_sum  $tarball" | sha256sum -c -
tar -xf "$tarball" -C "$work" --exclude='*/dnn/*' --exclude='*/tests/*'
cd "$work/opus-$version"

# The encoder's files, out of the lists in libopus' own makefiles.
files=$(sed -n '/^\(CELT_SOURCES\|SILK_SOURCES\|SILK_SOURCES_FLOAT\|OPUS_SOURCES\|OPUS_SOURCES_FLOAT\) *=/,/[^\\]$/p' \
	celt_sources.mk silk_sources.mk opus_sources.mk |
	grep -o '[a-zA-Z_/0-9]*\.c' |
	grep -v 'multistream\|projection\|mapping_matrix\|opus_decoder\|celt_decoder')

mkdir obj
for f in $files "$here/encoder.c"; do
	o=obj/$(echo "${f#"$here"/}" | tr / _).o
	# shellcheck disable=SC2086 # ARGS and OPT are lists of words
	clang-14 --target=wasm32-wasi -c ${OPT:--Oz} ${ARGS:-} -w -DNDEBUG -DOPUS_BUILD -DUSE_ALLOCA \
		-DHAVE_LRINT -DHAVE_LRINTF -DFLOAT_APPROX -DPACKAGE_VERSION='"1.5.2"' \
		-fno-math-errno -ffunction-sections -fdata-sections -ffile-prefix-map="$work"=. -ffile-prefix-map="$here"=. \
		-Iinclude -Icelt -Isilk -Isilk/float -I. "$f" -o "$o"
done

# The stack comes first in memory, so that overrunning it traps instead of
# changing the state of the encoder.
wasm-ld-14 --no-entry --gc-sections --strip-all --stack-first -z stack-size=131072 \
	obj/*.o -L/usr/lib/wasm32-wasi -lc /usr/lib/llvm-14/lib/clang/14.0.6/lib/wasi/libclang_rt.builtins-wasm32.a -o "$out"
chmod 644 "$out"
cp COPYING "$here/COPYING"
ls -l "$out"
