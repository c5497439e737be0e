package control

import (
	"context"

	"patchbay/internal/i18n"
	"patchbay/internal/mcpregistry"
	"patchbay/internal/problem"
)

const msgNoRegistry = i18n.Message("No registry of tool servers is configured (mcp.registry).")

// RegistryQuery selects servers of the registry.
type RegistryQuery struct {
	Search string `query:"search"` // words
}

// RegistryList is a list of servers of the registry. More reports whether there may be further
// ones.
type RegistryList struct {
	Servers []mcpregistry.Server `json:"servers"`
	More    bool                 `json:"more,omitempty"`
}

// SearchRegistry finds tool servers in the registry. What it says about them is what their
// publishers claim.
func (s *Service) SearchRegistry(ctx context.Context, _ Caller, in RegistryQuery) (RegistryList, error) {
	if s.Registry == nil {
		return RegistryList{}, problem.New(problem.NotFound, msgNoRegistry)
	}
	list, more, err := s.Registry.Search(ctx, in.Search)
	if err != nil {
		return RegistryList{}, registryProblem(ctx, err)
	}
	if list == nil {
		list = []mcpregistry.Server{}
	}
	return RegistryList{list, more}, nil
}

// RegistryRef identifies a server of the registry.
type RegistryRef struct {
	Name    string `query:"name"`
	Version string `query:"version"` // empty: the newest
}

// ShowRegistryServer returns one server of the registry.
func (s *Service) ShowRegistryServer(ctx context.Context, _ Caller, in RegistryRef) (mcpregistry.Server, error) {
	if s.Registry == nil {
		return mcpregistry.Server{}, problem.New(problem.NotFound, msgNoRegistry)
	}
	one, err := s.Registry.Server(ctx, in.Name, in.Version)
	if err != nil {
		return mcpregistry.Server{}, registryProblem(ctx, err)
	}
	return one, nil
}

// registryProblem returns the error of a request to the registry.
func registryProblem(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code := problem.Invalid
	if mcpregistry.IsUnavailable(err) {
		code = problem.Unavailable
	}
	return problem.Wrap(code, err)
}
