package cli

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"patchbay/internal/config"
)

// settingText is the flag of a setting. It only holds the text; package config interprets and
// validates it.
type settingText struct {
	Given bool
	Text  string
}

// Decode reads the flag's value.
func (s *settingText) Decode(ctx *kong.DecodeContext) error {
	s.Given = true
	return ctx.Scan.PopValueInto("value", &s.Text)
}

// settingSwitch is the flag of a boolean setting; without a value it means true.
type settingSwitch struct {
	Given bool
	Text  string
}

// Decode reads the flag's value, if any.
func (s *settingSwitch) Decode(ctx *kong.DecodeContext) error {
	s.Given, s.Text = true, "true"
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		s.Text = fmt.Sprint(ctx.Scan.Pop().Value)
	}
	return nil
}

// IsBool reports that the flag needs no value.
func (s *settingSwitch) IsBool() bool { return true }

// newSettings returns flags for all settings, as a struct for kong.
func newSettings() kong.Plugins {
	var fields []reflect.StructField
	add := func(flag, group, help, placeholder string, typ reflect.Type) {
		fields = append(fields, reflect.StructField{
			Name: "F" + strconv.Itoa(len(fields)), Type: typ,
			Tag: reflect.StructTag(fmt.Sprintf("name:%q group:%q help:%q placeholder:%q",
				strings.TrimPrefix(flag, "--"), group, strings.ReplaceAll(help, "$", "$$"), placeholder)),
		})
	}
	for _, k := range config.Keys() {
		typ := reflect.TypeFor[settingText]()
		if k.Type == config.Bool {
			typ = reflect.TypeFor[settingSwitch]()
		}
		group, _, nested := strings.Cut(k.Path, ".")
		if !nested {
			group = ""
		} else {
			group = "Settings of " + group + ":"
		}
		add(k.Flag, group, settingHelp(k), placeholder(k), typ)
		if k.Secret {
			add(k.Flag+"-file", group, "File that holds the value of "+k.Flag+".",
				"FILE", reflect.TypeFor[settingText]())
		}
	}
	return kong.Plugins{reflect.New(reflect.StructOf(fields)).Interface()}
}

// settingHelp returns the help of a setting.
func settingHelp(k config.Key) string {
	help := k.Doc
	if k.Range != "" && k.Type != config.Bool {
		help += " Allowed: " + k.Range + "."
	}
	switch {
	case k.Type == config.Bool && k.Default == "true":
		help += " Default: true; " + k.Flag + "=false switches it off."
	case k.Default != "":
		help += " Default: " + k.Default + "."
	}
	return help
}

func placeholder(k config.Key) string {
	switch k.Type {
	case config.Path:
		return "PATH"
	case config.Number:
		return "N"
	case config.Duration:
		return "TIME"
	case config.Bytes:
		return "SIZE"
	case config.List:
		return "LIST"
	}
	if strings.HasSuffix(k.Path, "url") {
		return "URL"
	}
	return "TEXT"
}

// given returns the settings whose flags are on the command line, by path.
func given(settings kong.Plugins) map[string]string {
	flags := map[string]string{}
	v := reflect.ValueOf(settings[0]).Elem()
	i := 0
	take := func(path string) {
		field := v.Field(i)
		i++
		if field.FieldByName("Given").Bool() {
			flags[path] = field.FieldByName("Text").String()
		}
	}
	for _, k := range config.Keys() {
		take(k.Path)
		if k.Secret {
			take(k.Path + "_file")
		}
	}
	return flags
}
