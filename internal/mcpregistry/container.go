package mcpregistry

import (
	"regexp"
	"slices"
	"strings"
)

// A container is run so that a stranger's program does not get this machine, so a publisher may not
// give docker options that open it: all others than these are refused, in every place, since an
// argument without a value is left out and the next one takes its place.
var containerOptions = []string{"-a", "--attach", "--add-host", "-c", "--cpu-shares", "--cap-drop", "--cpus",
	"--dns", "-e",
	"--env", "--entrypoint", "--expose", "-h", "--hostname", "-i", "--interactive", "--init", "-it", "-ti", "-l",
	"--label",
	"-m", "--memory", "--memory-swap", "--mount", "--name", "--net", "--network", "--no-healthcheck", "-p", "--publish",
	"--pids-limit", "--platform", "--pull", "-q", "--quiet", "--read-only", "--rm", "--shm-size", "--stop-signal",
	"--stop-timeout", "-t", "--tty", "--tmpfs", "-u", "--user", "-v", "--volume", "-w", "--workdir"}

// hostFolder is the source of a mount that is a path of this machine.
var hostFolder = regexp.MustCompile(`^([/\\.~$]|[a-zA-Z]:[/\\]).*:`)

// given stands for what people give in a word.
const given = "\x00"

// checkContainer refuses options that give a container this machine, or files of it. What people
// themselves choose, such as a folder that the entry asks for, is theirs to decide.
func (b *builder) checkContainer(list []Argument) {
	for _, a := range list {
		for _, value := range b.expand(a.Value) {
			for _, word := range a.words(value, len(a.Value) > 0) {
				if opensHost(word) {
					b.refuse(OpenContainer, strings.ReplaceAll(word, given, "…"))
				}
			}
		}
	}
}

// opensHost reports whether a word among the options of docker can open this machine.
func opensHost(word string) bool {
	name, value, joined := strings.Cut(word, "=")
	if strings.HasPrefix(word, "-") {
		if !slices.Contains(containerOptions, name) {
			return true
		}
		if !joined || name == "--tmpfs" {
			return false
		}
		word = value
	}
	switch {
	case word == "host", strings.HasPrefix(word, "container:"), hostFolder.MatchString(word):
		return true
	}
	return opensMount(word)
}

// opensMount reports whether a word is the value of --mount with a source of the publisher's on
// this machine, or with options for a driver, which can be one.
func opensMount(word string) bool {
	bind, fixed := false, false
	for part := range strings.SplitSeq(strings.ToLower(word), ",") {
		name, value, _ := strings.Cut(strings.Trim(part, `" `), "=")
		switch name {
		case "volume-opt", "volume-driver":
			return true
		case "type":
			bind = bind || value != "volume" && value != "tmpfs"
		case "src", "source":
			fixed = fixed || !strings.HasPrefix(value, given)
		}
	}
	return bind && fixed
}

// maxExpanded limits the texts that one value is tried with.
const maxExpanded = 200

// expand returns the texts that a value can have: with the defaults and choices of its inputs.
func (b *builder) expand(t Template) []string {
	out := []string{""}
	for _, p := range t {
		texts := []string{p.Text}
		if p.Input != "" {
			texts = []string{given}
			at := slices.IndexFunc(b.way.Inputs, func(in Input) bool { return in.Name == p.Input })
			if in := b.way.Inputs[at]; in.Default != "" || len(in.Choices) > 0 {
				texts = append([]string{in.Default}, in.Choices...)
			}
		}
		if len(out)*len(texts) > maxExpanded {
			b.refuse(TooMuch, "")
			return nil
		}
		var next []string
		for _, before := range out {
			for _, text := range texts {
				next = append(next, before+text)
			}
		}
		out = next
	}
	return out
}
