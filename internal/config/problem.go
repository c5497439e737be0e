package config

import "strings"

// Problem is one error in the settings, as a sentence that includes advice. It never contains the
// value of a secret.
type Problem struct {
	// Key is the path of the key, or the name of the file or variable that is wrong as a whole.
	Key string
	// Where is the source of the value ("line 3 of /etc/patchbay.yaml", "PATCHBAY_LISTEN",
	// "--listen"); empty if there is none, or if Key names it.
	Where string
	// Fault continues a sentence that begins with Key and Where.
	Fault string
	// Advice states how to correct it.
	Advice string
}

// Error returns the sentence, on one line.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Key)
	if p.Where != "" {
		if strings.HasPrefix(p.Where, "line ") {
			b.WriteString(" on ")
		} else {
			b.WriteString(" in ")
		}
		b.WriteString(p.Where)
	}
	b.WriteString(" " + p.Fault + ": " + p.Advice)
	return b.String()
}

// Problems are all errors in the settings: first those of the file, then of the environment, of the
// flags, and of contradictory values.
type Problems []Problem

// Error returns one sentence per line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// err returns nil if there are no problems; a nil Problems in an error is not nil.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// mentions reports whether there is a problem with the key already.
func (p Problems) mentions(key string) bool {
	for i := range p {
		if p[i].Key == key {
			return true
		}
	}
	return false
}

func (p *Problems) add(key, where, fault, advice string) {
	*p = append(*p, Problem{Key: key, Where: where, Fault: fault, Advice: advice})
}
