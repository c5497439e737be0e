package service

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// logName is the log of services whose manager keeps none, in the data folder.
const logName = "service.log"

// bootstrapTries is how often a service is bootstrapped, a second apart. Bootout does not wait for
// the end of the process, to which running answers have 20 s, and until then bootstrap fails.
const bootstrapTries = 30

// launchd manages the service by launchctl, macOS 10.11 and later (launchctl(1)).
type launchd struct{ Host }

func (launchd) name() string { return "launchd" }

func (m launchd) file(user bool) string {
	if user {
		return path.Join(m.Home, "Library/LaunchAgents", Name+".plist")
	}
	return "/Library/LaunchDaemons/" + Name + ".plist"
}

// domain returns the domain target of launchctl, and the service target in it.
func (m launchd) domain(user bool) (domain, service string) {
	domain = "system"
	if user {
		domain = "gui/" + strconv.Itoa(m.UID)
	}
	return domain, domain + "/" + Name
}

func (m launchd) install(s Spec) []Step {
	domain, service := m.domain(s.User)
	steps := []Step{{Folder: s.Data, Mode: 0o700}}
	if !s.User {
		steps = append(steps, Step{Run: []string{"chown", "-R", s.Account, s.Data}})
	}
	return append(steps,
		Step{Write: m.file(s.User), Text: propertyList(s), Mode: 0o644},
		Step{Run: []string{"launchctl", "bootout", service}, Optional: true}, // an earlier one
		Step{Run: []string{"launchctl", "enable", service}},
		Step{Run: []string{"launchctl", "bootstrap", domain, m.file(s.User)}, Tries: bootstrapTries})
}

func (m launchd) uninstall(s Spec, purge bool) []Step {
	_, service := m.domain(s.User)
	steps := []Step{
		{Run: []string{"launchctl", "bootout", service}, Optional: true}, // it may not be loaded
		{Remove: m.file(s.User)},
	}
	if purge {
		steps = append(steps, Step{Remove: s.Data})
	}
	return steps
}

// runArgs are the arguments of the program where it has to write its log itself.
func runArgs(s Spec, log string) []string {
	return append([]string{"service", "run", "--log", log, "--"}, s.args()...)
}

// propertyList returns the text of the property list (launchd.plist(5)).
func propertyList(s Spec) string {
	var b strings.Builder
	b.WriteString(xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" ` +
		`"http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
`)
	key := func(name, value string) { fmt.Fprintf(&b, "\t<key>%s</key>\n\t%s\n", name, value) }
	key("Label", xmlString(Name))
	var words strings.Builder
	for _, word := range append([]string{s.Binary}, runArgs(s, path.Join(s.Data, logName))...) {
		words.WriteString("\n\t\t" + xmlString(word))
	}
	key("ProgramArguments", "<array>"+words.String()+"\n\t</array>")
	if s.Account != "" {
		key("UserName", xmlString(s.Account))
	}
	key("RunAtLoad", "<true/>")
	key("KeepAlive", "<dict>\n\t\t<key>SuccessfulExit</key>\n\t\t<false/>\n\t</dict>")
	key("ExitTimeOut", fmt.Sprintf("<integer>%d</integer>", int(StopTimeout.Seconds())))
	key("Umask", fmt.Sprintf("<integer>%d</integer>", 0o077))
	key("SoftResourceLimits", "<dict>\n\t\t<key>NumberOfFiles</key>\n\t\t<integer>"+
		strconv.Itoa(maxFiles)+"</integer>\n\t</dict>")
	b.WriteString("</dict>\n</plist>\n")
	return b.String()
}

func xmlString(text string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(text)) //nolint:errcheck // a Builder does not fail
	return "<string>" + b.String() + "</string>"
}

// installed reads the property list: the strings of the program, and that after the key UserName.
func (m launchd) installed(_ context.Context, user bool) (data, account string) {
	text, err := os.ReadFile(m.path(m.file(user)))
	if err != nil {
		return "", ""
	}
	var words []string
	key := ""
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err != nil {
			return dataOf(words), account // the end, or what launchd would not read either
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "key" && start.Name.Local != "string" {
			continue
		}
		var word string
		if err := d.DecodeElement(&word, &start); err != nil {
			return "", ""
		}
		switch {
		case start.Name.Local == "key":
			key = word
		case key == "UserName":
			account = word
		case key == "ProgramArguments":
			words = append(words, word)
		}
	}
}

func (m launchd) state(ctx context.Context, user bool) (State, error) {
	if !m.exists(m.file(user)) {
		return State{}, nil
	}
	_, service := m.domain(user)
	s := State{Installed: true, File: m.file(user)}
	out, err := output(ctx, "launchctl", "print", service)
	if err != nil {
		s.Detail = "not loaded"
		return s, ctx.Err()
	}
	s.AtBoot = true
	parseLaunchd(out, &s)
	return s, nil
}

// parseLaunchd reads the output of launchctl print, lines such as "state = running". It is no
// stable interface, so that only three of its lines are used, and each may be missing.
func parseLaunchd(out string, s *State) {
	for line := range strings.Lines(out) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case !ok:
		case name == "state" && s.Detail == "":
			s.Detail, s.Running = value, value == "running"
		case name == "pid" && s.PID == 0:
			s.PID, _ = strconv.Atoi(value) //nolint:errcheck // 0 is none
		case name == "program" && s.Binary == "":
			s.Binary = value
		}
	}
}

func (launchd) logs(s Spec, follow bool, lines int) []string {
	words := []string{"tail", "-n", strconv.Itoa(lines)}
	if follow {
		words = append(words, "-F") // the file is replaced when it is full
	}
	return append(words, path.Join(s.Data, logName))
}
