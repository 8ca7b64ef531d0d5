#!/bin/sh
# Make the virtual environment FOLDER with the interpreter PYTHON, unless it is there:
#
#     tools/environment.sh PYTHON FOLDER [chosen]
#
# An environment that does not run, or is too old, is replaced; with a third argument, which says
# that a person or a recipe chose PYTHON, also one that another interpreter made. If PYTHON cannot
# make one, a line says why, and nothing is changed.
set -eu
python=$1
folder=$2
chosen=${3-}

minor=$(sed -n 's/^requires-python = ">=3\.\([0-9]*\).*/\1/p' pyproject.toml)
is_new="import sys; sys.exit(sys.version_info[:2] < (3, $minor))"
about='import sys; print("%d.%d in %s" % (sys.version_info[:2] + (sys.base_prefix,)))'

fail() {
	echo "$1" >&2
	exit 1
}

# The interpreters on the PATH that would do. A name may be there and not run, as pyenv's.
others() {
	for name in python3 python3.11 python3.12 python3.13 python3.14; do
		if "$name" -c "$is_new" 2>/dev/null; then printf ' %s' "$name"; fi
	done
}

advice() {
	found=$(others)
	if [ -n "$found" ]; then
		echo "add PYTHON=${found##* } to the command (here:$found)"
	else
		echo "install one, and add its name to the command: PYTHON=python3.12"
	fi
}

if "$folder/bin/python" -c "$is_new" 2>/dev/null && "$folder/bin/python" -c 'import pip' 2>/dev/null; then
	[ -n "$chosen" ] || exit 0
	[ "$("$folder/bin/python" -c "$about")" != "$("$python" -c "$about" 2>/dev/null)" ] || exit 0
elif [ -e "$folder" ] && [ ! -e "$folder/pyvenv.cfg" ] && [ -n "$(ls -A "$folder")" ]; then
	fail "$folder is there and is no virtual environment: remove it"
fi

version=$("$python" -c 'import platform; print(platform.python_version())' 2>/dev/null) ||
	fail "$python does not run: $(advice)"
"$python" -c "$is_new" ||
	fail "$python is Python $version, and tensor-round needs 3.$minor or newer: $(advice)"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
	fail "$python cannot make virtual environments; on Debian and Ubuntu: apt-get install $(basename "$python")-venv"
"$python" -m venv --clear "$folder"
