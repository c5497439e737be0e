package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const unitName = Name + ".service"

// packagedUnits are where packages of distributions put the unit (systemd.unit(5)).
var packagedUnits = []string{"/usr/lib/systemd/system/" + unitName, "/lib/systemd/system/" + unitName}

// defaultState is the data folder that systemd makes for the unit.
const defaultState = "/var/lib/" + Name

// Unit returns the text of the systemd unit.
func Unit(s Spec) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[Unit]")
	line("Description=Patchbay, a hub for glasses, voice boards, agents and tools")
	line("Documentation=man:patchbay(1)")
	if !s.User {
		line("Wants=network-online.target")
		line("After=network-online.target postgresql.service nats-server.service")
	}
	line("")
	line("[Service]")
	line("Type=notify")
	line("ExecStart=%s", execLine(append([]string{s.Binary}, s.args()...)))
	if s.EnvFile != "" {
		line("EnvironmentFile=-%s", strings.ReplaceAll(s.EnvFile, "%", "%%")) // it is never quoted
	}
	line("# A start may have to copy and migrate a large database.")
	line("TimeoutStartSec=infinity")
	line("# Running answers get 20 s to end.")
	line("TimeoutStopSec=%d", int(StopTimeout.Seconds()))
	line("KillMode=mixed")
	line("Restart=on-failure")
	line("RestartSec=2")
	line("# A wrong command line does not become right by another try.")
	line("RestartPreventExitStatus=2")
	line("LimitNOFILE=%d", maxFiles)
	line("UMask=0077")
	b.WriteString(hardening)
	if !s.User {
		systemHardening(line, s)
	}
	line("")
	line("[Install]")
	if s.User {
		line("WantedBy=default.target")
	} else {
		line("WantedBy=multi-user.target")
	}
	return b.String()
}

// hardening needs no rights, so it is for services of a person too. MemoryDenyWriteExecute is left
// out: the Opus encoder and the detection of voice are WebAssembly that is compiled in memory.
// AF_NETLINK is how the addresses of the machine are listed.
const hardening = `
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
`

// systemHardening writes what the account of the service may see and do on the machine.
func systemHardening(line func(string, ...any), s Spec) {
	line("")
	line("User=%s", s.Account)
	if s.Data == defaultState {
		line("StateDirectory=%s", Name)
		line("StateDirectoryMode=0700")
	} else {
		line("ReadWritePaths=%s", unitWord(s.Data, false))
	}
	line("# Ports below 1024, such as 443.")
	line("AmbientCapabilities=CAP_NET_BIND_SERVICE")
	line("CapabilityBoundingSet=CAP_NET_BIND_SERVICE")
	line("ProtectSystem=strict")
	if underHome(s.Data) {
		line("ProtectHome=read-only")
	} else {
		line("ProtectHome=yes")
	}
	b := []string{"PrivateTmp", "PrivateDevices", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
		"ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RemoveIPC"}
	for _, name := range b {
		line("%s=yes", name)
	}
	line("ProtectProc=invisible")
	line("DevicePolicy=closed")
}

func underHome(path string) bool {
	for _, home := range []string{"/home/", "/root/", "/run/user/"} {
		if strings.HasPrefix(path, home) {
			return true
		}
	}
	return false
}

// execLine quotes a command line (systemd.service(5), "Command lines").
func execLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = unitWord(word, true)
	}
	return strings.Join(quoted, " ")
}

// unitWord quotes a word of a unit: "%" begins a specifier, and in commands "$" a variable.
func unitWord(word string, command bool) string {
	word = strings.ReplaceAll(word, "%", "%%")
	if command {
		word = strings.ReplaceAll(word, "$", "$$")
	}
	if word != "" && !strings.ContainsAny(word, " \t\"'\\;") {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// systemd manages the service by systemctl.
type systemd struct{ Host }

func (systemd) name() string { return "systemd" }

func (m systemd) file(user bool) string {
	if user {
		return filepath.Join(m.ConfigHome, "systemd", "user", unitName)
	}
	return "/etc/systemd/system/" + unitName
}

func systemctl(user bool, words ...string) []string {
	if user {
		return append([]string{"systemctl", "--user"}, words...)
	}
	return append([]string{"systemctl"}, words...)
}

func (m systemd) install(s Spec) []Step {
	var steps []Step
	if !s.User {
		steps = m.prepareAccount(s)
	}
	steps = append(steps,
		Step{Write: m.file(s.User), Text: Unit(s), Mode: 0o644},
		Step{Run: systemctl(s.User, "daemon-reload")},
		Step{Run: systemctl(s.User, "enable", unitName)},
		// It does start what does not run.
		Step{Run: systemctl(s.User, "restart", unitName)})
	if s.User {
		// So that it runs while the person is not signed in. Some systems do not allow it.
		steps = append(steps, Step{Run: []string{"loginctl", "enable-linger"}, Optional: true})
	}
	return steps
}

// prepareAccount makes the account, and the data folder if systemd does not.
func (m systemd) prepareAccount(s Spec) []Step {
	var steps []Step
	if !m.HasAccount(s.Account) {
		steps = append(steps, Step{Run: []string{"useradd", "--system", "--user-group", "--no-create-home", "--home-dir",
			s.Data, "--shell", "/usr/sbin/nologin", s.Account}})
	}
	if s.Data != defaultState {
		steps = append(steps, Step{Folder: s.Data, Mode: 0o700},
			Step{Run: []string{"chown", "-R", s.Account + ":" + s.Account, s.Data}})
	}
	return steps
}

func (m systemd) uninstall(s Spec, purge bool) []Step {
	steps := []Step{
		{Run: systemctl(s.User, "disable", "--now", unitName)},
		{Remove: m.file(s.User)},
		{Run: systemctl(s.User, "daemon-reload")},
		{Run: systemctl(s.User, "reset-failed", unitName), Optional: true},
	}
	if !purge {
		return steps
	}
	steps = append(steps, Step{Remove: s.Data})
	if !s.User && s.Account == Name && m.HasAccount(Name) {
		steps = append(steps, Step{Run: []string{"userdel", Name}})
	}
	return steps
}

// installed reads the unit. It is ours, or one that a person wrote.
func (m systemd) installed(_ context.Context, user bool) (data, account string) {
	text, err := os.ReadFile(m.path(m.file(user)))
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "ExecStart":
			data = dataOf(unitWords(value))
		case "User":
			account = value
		}
	}
	return data, account
}

// unitWords reads a command line that execLine wrote.
func unitWords(line string) (words []string) {
	var b strings.Builder
	inside, begun := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		next := byte(0)
		if i+1 < len(line) {
			next = line[i+1]
		}
		switch {
		case c == '"':
			inside, begun = !inside, true
			continue
		case c == ' ' && !inside:
			if begun {
				words = append(words, b.String())
			}
			b.Reset()
			begun = false
			continue
		case inside && c == '\\' && next != 0, (c == '%' || c == '$') && next == c:
			c = next
			i++
		}
		b.WriteByte(c)
		begun = true
	}
	if begun {
		words = append(words, b.String())
	}
	return words
}

// shown are the properties of the unit that are read (org.freedesktop.systemd1(5)).
const shown = "LoadState,ActiveState,SubState,UnitFileState,MainPID,Result,FragmentPath,ExecStart"

func (m systemd) state(ctx context.Context, user bool) (State, error) {
	if !m.Systemd {
		return State{}, msgNoSystemd.Errorf()
	}
	out, err := output(ctx, systemctl(user, "show", unitName, "--property="+shown)...)
	if err != nil {
		return State{}, err
	}
	return parseUnitState(out), nil
}

// parseUnitState reads the output of systemctl show.
func parseUnitState(out string) State {
	p := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		p[name] = value
	}
	if p["LoadState"] == "" || p["LoadState"] == "not-found" {
		return State{}
	}
	s := State{Installed: true, File: p["FragmentPath"], Running: p["ActiveState"] == "active",
		AtBoot: p["UnitFileState"] == "enabled", Detail: p["ActiveState"] + " (" + p["SubState"] + ")"}
	s.PID, _ = strconv.Atoi(p["MainPID"]) //nolint:errcheck // 0 is none
	if r := p["Result"]; r != "" && r != "success" {
		s.Detail += ", " + r
	}
	// { path=/usr/bin/patchbay ; argv[]=… }
	if _, rest, ok := strings.Cut(p["ExecStart"], "path="); ok {
		s.Binary, _, _ = strings.Cut(rest, " ;")
	}
	return s
}

func (systemd) logs(s Spec, follow bool, lines int) []string {
	words := []string{"journalctl", "--unit", unitName}
	if s.User {
		words = []string{"journalctl", "--user", "--unit", unitName}
	}
	words = append(words, "--no-pager", "--lines", strconv.Itoa(lines))
	if follow {
		words = append(words, "--follow")
	}
	return words
}
