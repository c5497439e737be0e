package service

import (
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"time"
)

// Host is the machine on which a service is installed.
type Host struct {
	OS string // as GOOS
	// Root reports whether this process may change what belongs to the whole machine.
	Root bool
	UID  int
	Home string // of the person
	// Sudoer is the person who became root by sudo; empty: nobody did.
	Sudoer string
	// ConfigHome is the folder of the person's settings.
	ConfigHome string
	// ProgramData is the folder of Windows for data of the whole machine.
	ProgramData string
	Temp        string // folder for temporary files
	Systemd     bool   // systemd runs here
	// RetryAfter is the pause before a command is tried again.
	RetryAfter time.Duration
	// HasAccount reports whether there is an account of this name.
	HasAccount func(name string) bool
	// Prefix is put before each path that is read or written. It is for tests.
	Prefix string
}

// ThisHost returns the machine that the process runs on.
func ThisHost() Host {
	home, _ := os.UserHomeDir()       //nolint:errcheck // only services of a person need it
	settings, _ := os.UserConfigDir() //nolint:errcheck // likewise
	_, err := os.Stat("/run/systemd/system")
	return Host{
		OS: runtime.GOOS, Root: isPrivileged(), UID: os.Getuid(), Home: home, ConfigHome: settings,
		Sudoer: os.Getenv("SUDO_USER"), ProgramData: os.Getenv("ProgramData"), Temp: os.TempDir(),
		Systemd:    err == nil, // sd_booted(3)
		RetryAfter: time.Second,
		HasAccount: func(name string) bool { _, err := user.Lookup(name); return err == nil },
	}
}

// Data returns the default data folder of a service of the whole machine.
func (h Host) Data() string {
	switch h.OS {
	case "windows":
		return h.ProgramData + `\Patchbay`
	case "darwin":
		return "/usr/local/var/patchbay"
	}
	return "/var/lib/patchbay"
}

// Account returns the default account of a service of the whole machine. On macOS it is the person
// who installs it, because making accounts there takes a dozen steps that nobody would undo.
func (h Host) Account() string {
	switch h.OS {
	case "windows":
		return `NT SERVICE\` + Name // a virtual account, which Windows makes for each service
	case "darwin":
		return h.Sudoer
	}
	return Name
}

func (h Host) manager() manager {
	switch h.OS {
	case "linux":
		return systemd{h}
	case "darwin":
		return launchd{h}
	case "windows":
		return windows{h}
	}
	return nil
}

func (h Host) path(p string) string {
	if h.Prefix == "" {
		return p
	}
	return filepath.Join(h.Prefix, p)
}

func (h Host) exists(p string) bool {
	_, err := os.Stat(h.path(p))
	return err == nil
}
