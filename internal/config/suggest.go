package config

import (
	"maps"
	"slices"
	"strings"
)

// maxCompared bounds the work for one unknown name, in bytes. All known names are shorter.
const maxCompared = 64

// suggest returns advice for an unknown name.
func suggest(given string, names []string) string {
	if near := nearest(given, names); near != "" {
		return "did you mean " + near + "?"
	}
	return `"patchbay config doc" lists the known ones`
}

// nearest returns the name that was probably meant, or "". If none is near, it returns up to four
// names with the same last word, as for the right key in the wrong group.
func nearest(given string, names []string) string {
	given = strings.ReplaceAll(given, "-", "_")
	if len(given) > maxCompared {
		return ""
	}
	best, bestAt, sameEnd := "", typos(given)+1, []string(nil)
	slices.Sort(names) // for a deterministic answer
	for _, n := range names {
		if d := distance(strings.ToLower(given), strings.ToLower(n)); d < bestAt {
			best, bestAt = n, d
		}
		if lastWord(given) == lastWord(n) {
			sameEnd = append(sameEnd, n)
		}
	}
	if best == "" && len(sameEnd) <= 4 {
		return joinOr(sameEnd)
	}
	return best
}

func lastWord(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// typos returns how many typos are tolerated in a name of that length.
func typos(name string) int {
	switch name = strings.TrimPrefix(name, envPrefix); {
	case len(name) < 6:
		return 1
	case len(name) < 12:
		return 2
	}
	return 3
}

// distance returns how many letters have to be added, dropped, changed or swapped with their
// neighbour to get from a to b.
func distance(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}

// pathNames returns all names that are valid in the file.
func pathNames() []string {
	var names []string
	for _, k := range known.keys {
		names = append(names, k.Path)
		if k.Secret {
			names = append(names, k.Path+fileKey)
		}
	}
	return slices.AppendSeq(names, maps.Keys(known.groups))
}

// envNames returns all environment variables that are read.
func envNames() []string {
	names := []string{EnvConfig, EnvServer, EnvKey, EnvPassphrase}
	for _, k := range known.keys {
		names = append(names, k.Env)
		if k.Secret {
			names = append(names, k.Env+fileEnv)
		}
	}
	return names
}
