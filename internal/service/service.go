// Package service makes the server a service of the operating system: of systemd (Linux), launchd
// (macOS) or the service control manager (Windows).
//
// What has to be done is computed first, as a list of steps, and carried out by [Host.Do], so that
// it can be shown without doing it, and tested on any system.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
)

// Name is the name of the service, and of the account that runs it.
const Name = "patchbay"

// StopTimeout is how long the operating system waits for the server to end after it asked it to.
// It is more than the server takes to let running answers end.
const StopTimeout = 45 * time.Second

// maxFiles is the limit of open files: a connection is one. It is what systemd allows by default.
const maxFiles = 524288

// Spec describes the service to install. All paths are absolute.
type Spec struct {
	Binary string // the program
	// Data is the data folder. Config and EnvFile are files that the server reads; empty: none.
	Data, Config, EnvFile string
	Flags                 []string // further flags of patchbay serve
	// User makes it a service of the person who installs it, which needs no rights.
	User bool
	// Account is the account that the service runs as; empty for a service of a person.
	Account string
}

// args returns the arguments of the program.
func (s Spec) args() []string {
	args := []string{"serve", "--data", s.Data}
	if s.Config != "" {
		args = append(args, "--config", s.Config)
	}
	return append(args, s.Flags...)
}

// Step is one thing to do: exactly one of its first four fields is set.
type Step struct {
	Write  string   `json:"write,omitempty"`  // a file
	Folder string   `json:"folder,omitempty"` // a folder to make if it is missing
	Remove string   `json:"remove,omitempty"` // a file or a folder with all that is in it
	Run    []string `json:"run,omitempty"`    // a command

	Text string      `json:"text,omitempty"` // content of the file
	Mode fs.FileMode `json:"-"`              // permissions of the file or folder
	// Optional steps may fail.
	Optional bool `json:"optional,omitempty"`
	// Tries is how often a command that fails is run in all; 0 is once.
	Tries int `json:"tries,omitempty"`
}

// String describes the step as shell commands do.
func (s Step) String() string {
	switch {
	case s.Write != "":
		return "write " + s.Write
	case s.Folder != "":
		return fmt.Sprintf("mkdir -p -m %o %s", s.Mode, s.Folder)
	case s.Remove != "":
		return "rm -rf " + s.Remove
	}
	words := make([]string, len(s.Run))
	for i, word := range s.Run {
		words[i] = quote(word)
	}
	return strings.Join(words, " ")
}

// quote quotes a word for people who read a command.
func quote(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\"'$`\\*?;&|<>()") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// State is the state of an installed service.
type State struct {
	Manager   string `json:"manager"`   // systemd, launchd or windows
	Installed bool   `json:"installed"` // false: the other fields are empty
	Running   bool   `json:"running"`
	AtBoot    bool   `json:"at_boot"` // it starts by itself
	PID       int    `json:"pid,omitempty"`
	Detail    string `json:"detail,omitempty"` // the state in the manager's own words
	File      string `json:"file,omitempty"`   // unit or property list
	Binary    string `json:"binary,omitempty"` // the program that it runs
}

// manager knows one kind of service manager. Its methods compute; only state asks the system.
type manager interface {
	name() string
	// file returns the path that exists if the service is installed; "" if there is no such file.
	file(user bool) string
	install(s Spec) []Step
	uninstall(s Spec, purge bool) []Step
	state(ctx context.Context, user bool) (State, error)
	// installed returns the data folder and the account of the installed service; empty: unknown.
	installed(ctx context.Context, user bool) (data, account string)
	logs(s Spec, follow bool, lines int) []string
}

const (
	msgUnknownSystem  = i18n.Message("services of %s are not supported; start \"patchbay serve\" by the means of that system")
	msgNoSystemd      = i18n.Message("systemd does not run here, so there is nothing that could start a service; run \"patchbay serve\" by other means, for example in a container")
	msgNeedsRoot      = i18n.Message("a service for the whole machine needs the rights of root: use sudo, or --user for a service of your own")
	msgNeedsAdmin     = i18n.Message("a service needs the rights of an administrator: start the terminal as administrator")
	msgNoUserService  = i18n.Message("Windows has no services of a person; leave out --user")
	msgByPackage      = i18n.Message("the service comes with the package of Patchbay (%s); \"systemctl enable --now patchbay\" starts it, and its settings are in /etc/patchbay")
	msgPackageRemoves = i18n.Message("the service comes with the package of Patchbay (%s): remove the package, or stop the service with \"systemctl disable --now patchbay\"")
	msgInstalled      = i18n.Message("the service is installed already (%s, runs %s); --force replaces it")
	msgNotInstalled   = i18n.Message("the service is not installed; \"patchbay service install\" installs it")
	msgTemporary      = i18n.Message("%s is in a folder for temporary files, where the service would not find it: copy the program to /usr/local/bin first")
	msgHidden         = i18n.Message("the service cannot see %s, as home folders and folders for temporary files are hidden from it: copy the file to a place such as /usr/local/bin or /etc/patchbay, or use --user")
	msgClosed         = i18n.Message("the account %s cannot reach %s, because %s is closed to it: copy the file to a place that everybody may read, such as /usr/local/bin or /etc/patchbay, or use --user")
	msgOnlySystemd    = i18n.Message("--env-file is for systemd only; put the settings into the file of --config")
	msgNeedsAccount   = i18n.Message("--account is missing: the account that the service runs as")
	msgNoData         = i18n.Message("the data folder of the installed service cannot be found in %s")
	msgOtherFolder    = i18n.Message("%s has files that are not Patchbay's: it is left alone. Choose another folder with --data, or see to these files yourself")
	msgStepFailed     = i18n.Message("%s failed: %s")
)

// ErrNotInstalled is the error of what needs an installed service.
var ErrNotInstalled = msgNotInstalled.Errorf()

// CheckInstall reports why the service cannot be installed. Force ignores one that is.
func (h Host) CheckInstall(ctx context.Context, s Spec, force bool) error {
	if err := h.CheckManager(s.User); err != nil {
		return err
	}
	if s.EnvFile != "" && h.OS != "linux" {
		return msgOnlySystemd.Errorf()
	}
	if !s.User && s.Account == "" {
		return msgNeedsAccount.Errorf()
	}
	if !s.User && h.OS == "linux" {
		for _, unit := range packagedUnits {
			if h.exists(unit) {
				return msgByPackage.Errorf(unit)
			}
		}
		if err := h.reachable(s); err != nil {
			return err
		}
	}
	state, err := h.State(ctx, s.User)
	if err != nil || !state.Installed || force {
		return err
	}
	return msgInstalled.Errorf(state.File, state.Binary)
}

// CheckUninstall reports why the service cannot be removed.
func (h Host) CheckUninstall(ctx context.Context, user bool) error {
	if err := h.CheckManager(user); err != nil {
		return err
	}
	s, err := h.State(ctx, user)
	switch {
	case err != nil:
		return err
	case !s.Installed:
		return ErrNotInstalled
	case slices.Contains(packagedUnits, s.File):
		return msgPackageRemoves.Errorf(s.File)
	}
	return nil
}

// CheckManager reports why services cannot be changed: there is no service manager, or no right.
func (h Host) CheckManager(user bool) error {
	switch {
	case h.manager() == nil:
		return msgUnknownSystem.Errorf(h.OS)
	case h.OS == "linux" && !h.Systemd:
		return msgNoSystemd.Errorf()
	case h.OS == "windows" && user:
		return msgNoUserService.Errorf()
	case h.OS == "windows" && !h.Root:
		return msgNeedsAdmin.Errorf()
	case !user && !h.Root:
		return msgNeedsRoot.Errorf()
	}
	return nil
}

// reachable reports why the account of the service could not read the program or the settings.
func (h Host) reachable(s Spec) error {
	for _, file := range []string{s.Binary, s.Config} {
		if file == "" {
			continue
		}
		if temp := filepath.Clean(h.Temp) + string(filepath.Separator); h.Temp != "" && strings.HasPrefix(file, temp) {
			return msgTemporary.Errorf(file)
		}
		if h.hidden(s, file) {
			return msgHidden.Errorf(file)
		}
		for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
			info, err := os.Stat(h.path(dir))
			if err == nil && info.Mode().Perm()&0o001 == 0 {
				return msgClosed.Errorf(s.Account, file, dir)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil
}

// hidden reports whether the unit hides a file from the program: by ProtectHome, unless the data is
// in a home folder too, or by PrivateTmp. A link is followed, as the program does.
func (h Host) hidden(s Spec, file string) bool {
	paths := []string{file}
	if target, err := filepath.EvalSymlinks(h.path(file)); err == nil {
		paths = append(paths, strings.TrimPrefix(target, h.Prefix))
	}
	for _, path := range paths {
		if strings.HasPrefix(path, "/var/tmp/") || underHome(path) && !underHome(s.Data) {
			return true
		}
	}
	return false
}

// Install returns the steps that install and start the service; nil without a service manager.
func (h Host) Install(s Spec) []Step {
	if m := h.manager(); m != nil {
		return m.install(s)
	}
	return nil
}

// Uninstall returns the steps that stop and remove the service. Purge also removes the data folder
// and the account, if that is the service's own.
func (h Host) Uninstall(s Spec, purge bool) []Step {
	if m := h.manager(); m != nil {
		return m.uninstall(s, purge)
	}
	return nil
}

// State asks the service manager for the state of the service.
func (h Host) State(ctx context.Context, user bool) (State, error) {
	m := h.manager()
	if m == nil {
		return State{}, msgUnknownSystem.Errorf(h.OS)
	}
	s, err := m.state(ctx, user)
	s.Manager = m.name()
	return s, err
}

// Installed returns s with the data folder and the account of the service that is installed, which
// may be others than those that flags of a later command mean. Without a service it returns s.
func (h Host) Installed(ctx context.Context, s Spec) (Spec, error) {
	m := h.manager()
	if m == nil || h.OS == "linux" && !h.Systemd {
		return s, nil
	}
	state, err := m.state(ctx, s.User)
	if err != nil || !state.Installed {
		return s, err
	}
	data, account := m.installed(ctx, s.User)
	if data == "" {
		return s, msgNoData.Errorf(state.File)
	}
	s.Data = data
	if !s.User && account != "" {
		s.Account = account
	}
	return s, nil
}

// dataOf returns the data folder among the words of the command line of a service.
func dataOf(words []string) string {
	if i := slices.Index(words, "--data"); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

// CheckFolder reports why the data folder may not be removed with all that is in it, or given to
// another account: it has files, and used does not know it as a data folder.
func (h Host) CheckFolder(data string, used func(folder string) bool) error {
	list, err := os.ReadDir(h.path(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		harmless := strings.HasPrefix(e.Name(), logName) || e.Name() == "lost+found" // of a new disk
		if !harmless && !used(h.path(data)) {
			return msgOtherFolder.Errorf(data)
		}
	}
	return nil
}

// Logs shows the log of the service on out; follow goes on until ctx ends.
func (h Host) Logs(ctx context.Context, s Spec, follow bool, lines int, out, errs io.Writer) error {
	m := h.manager()
	if m == nil {
		return msgUnknownSystem.Errorf(h.OS)
	}
	words := m.logs(s, follow, lines)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // fixed words, numbers and our own paths
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil // the person has seen enough
	}
	return failed(words, err, "")
}

// Do carries out steps in order, and stops at the first that fails.
func (h Host) Do(ctx context.Context, steps []Step) error {
	for _, s := range steps {
		if err := h.do(ctx, s); err != nil && !s.Optional {
			return err
		}
	}
	return nil
}

func (h Host) do(ctx context.Context, s Step) error {
	switch {
	case s.Write != "":
		path := h.path(s.Write)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(s.Text), s.Mode)
	case s.Folder != "":
		return os.MkdirAll(h.path(s.Folder), s.Mode)
	case s.Remove != "":
		return os.RemoveAll(h.path(s.Remove))
	}
	_, err := output(ctx, s.Run...)
	for try := 1; err != nil && try < s.Tries; try++ {
		if stopped := netx.Wait(ctx, h.RetryAfter); stopped != nil {
			break
		}
		_, err = output(ctx, s.Run...)
	}
	return err
}

// commandTimeout is how long a command of a service manager may take: starting waits for the
// server, which may bring its database up to date.
const commandTimeout = 10 * time.Minute

// output runs a command and returns what it prints.
func output(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // see the managers
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	return string(out), failed(words, err, errs.String())
}

// failed explains why a command failed; nil if it did not.
func failed(words []string, err error, said string) error {
	if err == nil {
		return nil
	}
	said = strings.TrimSpace(said)
	if said == "" || errors.Is(err, exec.ErrNotFound) {
		said = err.Error()
	}
	return errors.Join(msgStepFailed.Errorf(Step{Run: words}.String(), said))
}
