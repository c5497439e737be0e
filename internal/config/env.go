package config

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// maxSecretFile limits the file of a secret, in bytes, in case its name points to something else.
// Keys and addresses are far shorter.
const maxSecretFile = 64 << 10

// envMap returns the variables that are not empty. Of several with the same name the last one wins,
// as in programs that a shell starts.
func envMap(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue // Windows stores the folder of each drive under "=C:"
		}
		if runtime.GOOS == "windows" {
			name = strings.ToUpper(name)
		}
		if value == "" {
			delete(m, name)
			continue
		}
		m[name] = value
	}
	return m
}

func (l *layer) readEnv() {
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if !strings.HasPrefix(name, envPrefix) || notSetting(name, l.env[name]) {
			continue
		}
		if k := known.byEnv[name]; k != nil {
			l.give(k, l.env[name], Origin{Name: name})
			continue
		}
		of, cut := strings.CutSuffix(name, fileEnv)
		if k := known.byEnv[of]; cut && k != nil && k.Secret {
			l.giveFile(k, l.env[name], Origin{Name: name})
			continue
		}
		l.problems.add(name, "", "is no known environment variable", suggest(name, envNames()))
	}
}

// serviceLink matches the variables that Kubernetes sets in every container for a service whose
// name begins with "patchbay". Nobody wrote them as settings, so they must not stop the server.
var serviceLink = regexp.MustCompile(`^PATCHBAY_([A-Z0-9_]+_)?(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceURL matches the value of the shortest of these variables, PATCHBAY_PORT. With any other
// value it is a mistake that has to be reported.
var serviceURL = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// notSetting reports whether a variable with the prefix of settings is not a setting.
func notSetting(name, value string) bool {
	switch name {
	case EnvConfig, EnvServer, EnvKey, EnvPassphrase:
		return true
	}
	return serviceLink.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && serviceURL.MatchString(value)
}

// readSecret returns the text of a file without surrounding white space, or what is wrong with the
// file.
func readSecret(path string) (text, fault string) {
	data, err := readLimited(path, maxSecretFile)
	if err != nil {
		return "", "cannot be read (" + reason(err) + ")"
	}
	if len(data) > maxSecretFile {
		return "", "is larger than " + Size(maxSecretFile).String()
	}
	if text = strings.TrimSpace(string(data)); text == "" {
		return "", "is empty"
	}
	return text, ""
}

// readLimited reads at most one byte more than limit.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// reason returns an error's text without the path.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

// dataHome returns the default data folder, or "" if the environment has no home folder.
func dataHome(env map[string]string) string { return dataHomeOn(runtime.GOOS, env) }

func dataHomeOn(goos string, env map[string]string) string {
	home := homeOn(goos, env)
	switch goos {
	case "windows":
		if local := env["LOCALAPPDATA"]; local != "" {
			return filepath.Join(local, "Patchbay")
		}
		return under(home, "AppData", "Local", "Patchbay")
	case "darwin":
		return under(home, "Library", "Application Support", "Patchbay")
	}
	// The XDG Base Directory Specification requires relative paths to be ignored.
	if data := env["XDG_DATA_HOME"]; filepath.IsAbs(data) {
		return filepath.Join(data, "patchbay")
	}
	return under(home, ".local", "share", "patchbay")
}

func homeOn(goos string, env map[string]string) string {
	if goos == "windows" {
		return env["USERPROFILE"]
	}
	return env["HOME"]
}

func under(home string, parts ...string) string {
	if home == "" {
		return ""
	}
	return filepath.Join(append([]string{home}, parts...)...)
}

// absolute resolves "~" and relative paths. An empty path stays empty.
func (l *layer) absolute(path string) string {
	if path == "" {
		return ""
	}
	if home := homeOn(runtime.GOOS, l.env); home != "" {
		if path == "~" {
			path = home
		} else if rest, ok := strings.CutPrefix(filepath.ToSlash(path), "~/"); ok {
			path = filepath.Join(home, rest)
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.base, path)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return path // the working folder is gone; opening the path reports it
	}
	return full
}
