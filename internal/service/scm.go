package service

import (
	"context"
	"strconv"
	"strings"
)

// windows manages the service by sc.exe, the command of the service control manager.
type windows struct{ Host }

func (windows) name() string { return "windows" }

func (windows) file(bool) string { return "" }

// Well-known security identifiers, which have other names in other languages: the system and the
// administrators.
const (
	sidSystem         = "*S-1-5-18"
	sidAdministrators = "*S-1-5-32-544"
)

func (windows) install(s Spec) []Step {
	words := append([]string{s.Binary}, runArgs(s, s.Data+`\`+logName)...)
	for i, word := range words {
		words[i] = windowsWord(word)
	}
	access := func(who string) string { return who + ":(OI)(CI)F" }
	return []Step{
		{Folder: s.Data, Mode: 0o700},
		{Run: []string{"net.exe", "stop", Name}, Optional: true}, // an earlier one; unlike sc.exe it waits
		{Run: []string{"sc.exe", "delete", Name}, Optional: true},
		// sc.exe wants the values of its options as arguments of their own.
		{Run: []string{"sc.exe", "create", Name, "binPath=", strings.Join(words, " "), "start=", "delayed-auto", "obj=",
			s.Account, "DisplayName=", "Patchbay"}},
		{Run: []string{"sc.exe", "description", Name, "A hub for glasses, voice boards, agents and tools"}},
		{Run: []string{"sc.exe", "failure", Name, "reset=", "86400", "actions=", "restart/2000/restart/2000/restart/60000"}},
		// Without the flag only a crash counts as a failure, not an exit with an error.
		{Run: []string{"sc.exe", "failureflag", Name, "1"}},
		// Any user may make folders in %ProgramData%: what is in this one is taken over, and loses
		// the rights that its maker gave, but not where links lead (/L).
		{Run: []string{"icacls.exe", s.Data, "/setowner", sidAdministrators, "/T", "/C", "/L"}},
		{Run: []string{"icacls.exe", s.Data, "/reset", "/T", "/C", "/L"}},
		// Only now Windows knows the account. Others on the machine may not look into the folder.
		{Run: []string{"icacls.exe", s.Data, "/inheritance:r", "/grant", access(sidSystem), access(sidAdministrators),
			access(s.Account)}},
		{Run: []string{"sc.exe", "start", Name}},
	}
}

func (windows) uninstall(s Spec, purge bool) []Step {
	steps := []Step{
		{Run: []string{"net.exe", "stop", Name}, Optional: true}, // it may not run
		{Run: []string{"sc.exe", "delete", Name}},
	}
	if purge {
		steps = append(steps, Step{Remove: s.Data})
	}
	return steps
}

// windowsWord quotes a word of a command line as CommandLineToArgvW reads it: backslashes before a
// quote are doubled.
func windowsWord(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\"") {
		return word
	}
	var b strings.Builder
	b.WriteByte('"')
	slashes := 0
	for _, c := range word {
		switch c {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes+1))
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteRune(c)
	}
	return b.String() + strings.Repeat(`\`, slashes) + `"`
}

// Codes of service states (SERVICE_STATUS, dwCurrentState), and the error code of a service that
// does not exist (ERROR_SERVICE_DOES_NOT_EXIST).
const (
	stateRunning     = 4
	codeNoSuchThing  = "1060"
	startAutomatic   = 2 // SERVICE_AUTO_START
	fieldTypeOfStart = "START_TYPE"
	fieldBinary      = "BINARY_PATH_NAME"
)

func (windows) state(ctx context.Context, _ bool) (State, error) {
	out, err := output(ctx, "sc.exe", "queryex", Name)
	if strings.Contains(out, codeNoSuchThing) {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	s := State{Installed: true, File: Name}
	fields := scFields(out)
	s.Detail = fields["STATE"]
	s.Running = leadingNumber(fields["STATE"]) == stateRunning
	s.PID = leadingNumber(fields["PID"])
	if out, err = output(ctx, "sc.exe", "qc", Name); err != nil {
		return s, err
	}
	fields = scFields(out)
	s.AtBoot = leadingNumber(fields[fieldTypeOfStart]) == startAutomatic
	s.Binary = firstWord(fields[fieldBinary])
	return s, nil
}

// installed asks for the command line. The account is of no use: Windows removes it by itself.
func (windows) installed(ctx context.Context, _ bool) (data, account string) {
	out, err := output(ctx, "sc.exe", "qc", Name)
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(out) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == fieldBinary {
			return dataOf(windowsWords(strings.TrimSpace(value))), ""
		}
	}
	return "", ""
}

// windowsWords reads a command line that consists of words of windowsWord, as CommandLineToArgvW
// does.
func windowsWords(line string) (words []string) {
	var b strings.Builder
	inside, begun, slashes := false, false, 0
	for _, c := range line {
		if c == '\\' {
			slashes++
			begun = true
			continue
		}
		if c == '"' {
			b.WriteString(strings.Repeat(`\`, slashes/2))
			if slashes%2 == 1 {
				b.WriteRune(c)
			} else {
				inside, begun = !inside, true
			}
			slashes = 0
			continue
		}
		b.WriteString(strings.Repeat(`\`, slashes))
		slashes = 0
		if (c == ' ' || c == '\t') && !inside {
			if begun {
				words = append(words, b.String())
			}
			b.Reset()
			begun = false
			continue
		}
		b.WriteRune(c)
		begun = true
	}
	b.WriteString(strings.Repeat(`\`, slashes))
	if begun {
		words = append(words, b.String())
	}
	return words
}

// scFields reads lines such as "  STATE              : 4  RUNNING". Sc.exe does not translate them.
func scFields(out string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[strings.TrimSpace(name)] = strings.Join(strings.Fields(value), " ")
		}
	}
	return fields
}

func leadingNumber(text string) int {
	word, _, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(word)
	if err != nil {
		return 0
	}
	return n
}

// firstWord returns the program of a command line.
func firstWord(line string) string {
	if rest, quoted := strings.CutPrefix(line, `"`); quoted {
		word, _, _ := strings.Cut(rest, `"`)
		return word
	}
	word, _, _ := strings.Cut(line, " ")
	return word
}

func (windows) logs(s Spec, follow bool, lines int) []string {
	script := "Get-Content -LiteralPath '" + strings.ReplaceAll(s.Data+`\`+logName, "'", "''") + "' -Tail " +
		strconv.Itoa(lines)
	if follow {
		script += " -Wait"
	}
	return []string{"powershell.exe", "-NoProfile", "-Command", script}
}
