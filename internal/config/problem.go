package config

import "strings"

// Problem is one thing that is wrong with the settings, told in one sentence
// that says what to do. It never holds the value of a secret.
type Problem struct {
	// Key is the path of the key, or the name of the file or variable that is
	// wrong as a whole.
	Key string
	// Where says what gave the value ("line 3 of /etc/patchbay.yaml",
	// "PATCHBAY_LISTEN", "--listen"); empty if nothing did, or if Key says it.
	Where string
	// Fault continues a sentence that begins with Key and Where.
	Fault string
	// Advice says what to do.
	Advice string
}

// Error is the sentence, on one line.
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

// Problems is everything that is wrong: the file's problems first, then the
// environment's, the flags', and what does not fit together.
type Problems []Problem

// Error is one sentence per line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// err is nil when there is no problem; a nil Problems in an error is not nil.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// about says whether a problem with the key is known already.
func (p Problems) about(key string) bool {
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
