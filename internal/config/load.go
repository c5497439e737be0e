package config

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Sources are the sources of settings. Later ones override earlier ones: defaults, file,
// environment, flags.
type Sources struct {
	// File is the YAML file. If it is empty, $PATCHBAY_CONFIG names it; if that is empty too, it is
	// patchbay.yaml in the data folder, if that exists.
	File string
	// Env is the environment in the format of os.Environ. A variable with an empty value counts as
	// unset. Nil means no environment.
	Env []string
	// Flags maps [Key].Path to the text of the given flags.
	Flags map[string]string
}

// Origin is the source of a value.
type Origin struct {
	// Path is the key's path.
	Path string
	// Name is the file, the environment variable or the flag.
	Name string
	// Line is the line in the file; 0 for other sources.
	Line int
}

// Where returns the position as text: "line 3 of /etc/patchbay.yaml", "PATCHBAY_LISTEN" or
// "--listen".
func (o Origin) Where() string {
	if o.Line > 0 {
		return "line " + strconv.Itoa(o.Line) + " of " + o.Name
	}
	return o.Name
}

// Load reads all sources and returns the configuration, and the origin of each key that is not at
// its default, in the order of [Keys]. It reads only the configuration file and the files of
// secrets.
//
// The error is [Problems], with every problem found.
func Load(s Sources) (*Config, []Origin, error) {
	env := envMap(s.Env)
	flags := newLayer(env)
	flags.readFlags(s.Flags)
	vars := newLayer(env)
	vars.readEnv()
	file := newLayer(env)
	file.readFile(fileName(s.File, env, flags, vars))

	layers := []*layer{file, vars, flags}
	all := []map[string]any{defaults()}
	origins := map[string]Origin{}
	var problems Problems
	for _, l := range layers {
		all = append(all, l.values)
		maps.Copy(origins, l.origins)
		problems = append(problems, l.problems...)
	}
	c := fill(all...)
	applyLayers(c, vars)
	applyHTTPS(c, origins)
	given := problems
	for _, p := range c.check() {
		if given.mentions(p.Key) || given.mentions(p.Key+fileKey) {
			continue // the checked value is not the intended one
		}
		if o, ok := origins[p.Key]; ok {
			p.Where = o.Where()
		}
		problems = append(problems, p)
	}
	if err := problems.err(); err != nil {
		return nil, nil, err
	}
	return c, sortedProblems(origins), nil
}

// fill returns a Config filled from layers of values by path; later ones win. The values have the
// types of the fields.
func fill(layers ...map[string]any) *Config {
	c := new(Config)
	fields := reflect.ValueOf(c).Elem()
	for _, l := range layers {
		for path, value := range l {
			fields.FieldByIndex(known.byPath[path].index).Set(reflect.ValueOf(value))
		}
	}
	return c
}

func defaults() map[string]any {
	values := make(map[string]any, len(known.keys))
	for _, k := range known.keys {
		values[k.Path] = k.must(k.Default)
	}
	return values
}

// applyLayers completes values that depend on others or on the machine.
func applyLayers(c *Config, vars *layer) {
	if c.Data == "" {
		c.Data = vars.absolute(dataHome(vars.env))
	}
	// Paths are appended to these URLs.
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	c.Lingzhu.PushURL = strings.TrimRight(c.Lingzhu.PushURL, "/")
}

// applyHTTPS sets what follows from automatic certificates, unless it was given.
func applyHTTPS(c *Config, origins map[string]Origin) {
	for i, name := range c.HTTPS.Names {
		c.HTTPS.Names[i] = strings.ToLower(strings.TrimSuffix(name, "."))
	}
	if len(c.HTTPS.Names) == 0 {
		return
	}
	if _, given := origins["listen"]; !given {
		c.Listen = ":443"
	}
	if _, given := origins["public_url"]; !given {
		c.PublicURL = "https://" + c.HTTPS.Names[0]
	}
}

func sortedProblems(origins map[string]Origin) []Origin {
	list := make([]Origin, 0, len(origins))
	for _, k := range known.keys {
		if o, ok := origins[k.Path]; ok {
			list = append(list, o)
		}
	}
	return list
}

// layer collects the values of one source.
type layer struct {
	values   map[string]any
	origins  map[string]Origin
	problems Problems
	env      map[string]string
	// base is the folder that relative paths start from; empty means the working folder.
	base string
}

func newLayer(env map[string]string) *layer {
	return &layer{values: map[string]any{}, origins: map[string]Origin{}, env: env}
}

// give records the text of a key's value.
func (l *layer) give(k *Key, text string, o Origin) {
	o.Path = k.Path
	if first, twice := l.origins[k.Path]; twice {
		l.problems.add(k.Path, o.Where(), "was given before, by "+first.Where(), "keep one of the two")
		return
	}
	l.origins[k.Path] = o
	value, ok := k.parse(text)
	if !ok {
		fault := "is " + show(text)
		if k.Secret {
			fault = "has a value of the wrong form"
		}
		l.problems.add(k.Path, o.Where(), fault, "give "+k.wanted())
		return
	}
	if k.Type == Path {
		value = l.absolute(text)
	}
	l.values[k.Path] = value
}

// giveFile records the value of a secret key from the file at path.
func (l *layer) giveFile(k *Key, path string, o Origin) {
	if !printable(path) || path == "" {
		l.problems.add(k.Path+fileKey, o.Where(), "is "+show(path), "give "+want[Path])
		return
	}
	text, fault := readSecret(l.absolute(path))
	if fault != "" {
		l.problems.add(k.Path+fileKey, o.Where(), "names "+name(path)+", which "+fault,
			"name a file that holds the value and that this account may read")
		return
	}
	l.give(k, text, o)
}

// secretTwin returns the secret key whose file is named under path, or nil.
func secretTwin(path string) *Key {
	of, cut := strings.CutSuffix(path, fileKey)
	if k := known.byPath[of]; cut && k != nil && k.Secret {
		return k
	}
	return nil
}

func (l *layer) readFlags(flags map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(flags)) {
		if k := known.byPath[path]; k != nil {
			l.give(k, flags[path], Origin{Name: k.Flag})
		} else if k := secretTwin(path); k != nil {
			l.giveFile(k, flags[path], Origin{Name: k.Flag + fileFlag})
		} else {
			l.problems.add(name(path), "", "is no known key", suggest(path, pathNames()))
		}
	}
}
