package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"patchbay/internal/i18n"
)

// maxValue is the maximum size of a value read from a file, in bytes. It protects against a wrong
// file name; a long prompt has some KiB.
const maxValue = 1 << 20

// pairs parses settings given as name=value. A value that begins with @ names a file to read it
// from, so that secrets need not be on the command line; "@-" is standard input, and "@@" stands
// for a literal "@".
func (sh *shell) pairs(texts []string) (map[string]string, error) {
	set := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usage(i18n.Message("%q is not a setting; write name=value"), text)
		}
		if _, twice := set[name]; twice {
			return nil, usage(i18n.Message("%s is specified twice"), name)
		}
		value, err := sh.value(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		set[name] = value
	}
	return set, nil
}

func (sh *shell) value(text string) (string, error) {
	file, isFile := strings.CutPrefix(text, "@")
	switch {
	case !isFile:
		return text, nil
	case strings.HasPrefix(file, "@"):
		return file, nil
	case file == "-":
		return readValue(sh.stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readValue(f)
}

func readValue(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxValue+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxValue {
		return "", i18n.Message("the file is larger than %d bytes").Errorf(maxValue)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
