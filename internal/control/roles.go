package control

import (
	"context"
	"maps"
	"slices"
	"strings"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/roles"
)

// RoleQuery selects roles.
type RoleQuery struct {
	Lang string `query:"lang" json:"-"` // their language; empty: that of the caller
}

// RoleList are roles to start a bot from.
type RoleList struct {
	Roles []roles.Role `json:"roles"`
}

const (
	msgNoSuchRole = i18n.Message("there is no role %q; there are %s")
	msgRoleless   = i18n.Message("bots of kind %s take no role")
)

// Roles lists the roles to start a bot from.
func (s *Service) Roles(_ context.Context, c Caller, in RoleQuery) (RoleList, error) {
	return RoleList{roles.All(roleLang(c, in.Lang))}, nil
}

func roleLang(c Caller, lang string) i18n.Lang { return i18n.ParseLang(lang, c.Lang) }

// TakesRole reports whether bots with these settings can play a role: whether they have a prompt.
func TakesRole(list []hub.Setting) bool {
	return slices.ContainsFunc(list, func(s hub.Setting) bool { return s.Name == roles.SettingPrompt })
}

// Role returns a role and its settings for bots that have these settings.
func (s *Service) Role(c Caller, id, lang string, list []hub.Setting) (r roles.Role, set SettingTexts, err error) {
	r, ok := roles.Find(id, roleLang(c, lang))
	if !ok {
		return r, nil, problem.New(problem.Invalid, msgNoSuchRole, id, strings.Join(roles.IDs(), ", "))
	}
	set = r.Settings()
	maps.DeleteFunc(set, func(name, _ string) bool {
		return !slices.ContainsFunc(list, func(s hub.Setting) bool { return s.Name == name })
	})
	return r, set, nil
}

// play fills what a new bot lacks with what its role has.
func (s *Service) play(c Caller, in *NewBot) error {
	list, err := s.Hub.Registry.Describe(in.Kind)
	if err != nil {
		return err
	}
	if !TakesRole(list) {
		return problem.New(problem.Invalid, msgRoleless, in.Kind)
	}
	r, set, err := s.Role(c, in.Role, in.RoleLang, list)
	if err != nil {
		return err
	}
	maps.Copy(set, in.Settings)
	in.Settings = set
	if in.Name == "" {
		in.Name = r.Name
	}
	if in.Description == "" {
		in.Description = r.About
	}
	return nil
}
