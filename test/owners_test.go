package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// Only package netx has waits that end with a context, and back-off, so that they are right once.
func TestOwnerOfWaits(t *testing.T) {
	for file, text := range sources(t) {
		if tests(file) || strings.HasPrefix(file, "internal/netx/") {
			continue
		}
		for _, found := range ownWaits(t, file, text) {
			t.Error(found)
		}
	}
}

// ownWaits returns where a file waits only for a timer and a context, or doubles a delay.
func ownWaits(t *testing.T, file, text string) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		timers, waits := timersOf(f), false
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				waits = waits || slices.Contains([]string{"time.After", "time.NewTimer", "netx.Wait", "netx.WaitUnless"},
					dotted(c.Fun))
			}
			return true
		})
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectStmt:
				if isWait(n, timers) {
					found = append(found, set.Position(n.Pos()).String()+" waits for a timer and a context: use netx.Wait")
				}
			case *ast.AssignStmt:
				if waits && doubles(n) {
					found = append(found, set.Position(n.Pos()).String()+" doubles a delay: use netx.Backoff")
				}
			}
			return true
		})
	}
	return found
}

// timersOf returns the variables of a function that are new timers.
func timersOf(f *ast.FuncDecl) (timers []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i := range a.Rhs {
				if c, ok := a.Rhs[i].(*ast.CallExpr); ok && dotted(c.Fun) == "time.NewTimer" {
					timers = append(timers, dotted(a.Lhs[i]))
				}
			}
		}
		return true
	})
	return timers
}

// isWait reports whether a select statement only waits for a timer that is started for it, and for
// the end of a context.
func isWait(s *ast.SelectStmt, timers []string) bool {
	var timer, done bool
	for _, c := range s.Body.List {
		receive, ok := c.(*ast.CommClause).Comm.(*ast.ExprStmt)
		if !ok {
			return false
		}
		from, ok := receive.X.(*ast.UnaryExpr)
		if !ok {
			return false
		}
		switch from := from.X.(type) {
		case *ast.CallExpr:
			name := dotted(from.Fun)
			timer = timer || name == "time.After"
			done = done || strings.HasSuffix(name, ".Done")
		case *ast.SelectorExpr:
			of, ok := strings.CutSuffix(dotted(from), ".C")
			timer = timer || ok && slices.Contains(timers, of)
		}
	}
	return timer && done && len(s.Body.List) == 2
}

// doubles reports whether an assignment is x *= 2, x = 2*x or x = min(2*x, …).
func doubles(a *ast.AssignStmt) bool {
	if a.Tok == token.MUL_ASSIGN {
		return isTwo(a.Rhs[0])
	}
	if a.Tok != token.ASSIGN || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
		return false
	}
	value := a.Rhs[0]
	if c, ok := value.(*ast.CallExpr); ok && dotted(c.Fun) == "min" && len(c.Args) > 0 {
		value = c.Args[0]
	}
	product, ok := value.(*ast.BinaryExpr)
	x := dotted(a.Lhs[0])
	return ok && product.Op == token.MUL &&
		(isTwo(product.X) && dotted(product.Y) == x || isTwo(product.Y) && dotted(product.X) == x)
}

func isTwo(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Value == "2"
}

// dotted returns a name such as ctx.Done, or "" for another expression.
func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x := dotted(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
	}
	return ""
}

// The rule finds what it forbids, and nothing else.
func TestOwnerOfWaitsForbids(t *testing.T) {
	for text, want := range map[string]int{
		"select { case <-time.After(d): case <-ctx.Done(): return }":                             1,
		"t := time.NewTimer(d); defer t.Stop(); select { case <-c.ctx.Done(): case <-t.C: }":     1,
		"for { select { case <-ctx.Done(): case <-time.After(d): d *= 2 } }":                     2,
		"for { _ = netx.Wait(ctx, d); d = min(2*d, most) }":                                      1,
		"for ; ; d = min(d*2, most) { _ = netx.Wait(ctx, d) }":                                   1,
		"for ; ; c.d = 2*c.d { _ = netx.Wait(ctx, c.d) }":                                        1,
		"select { case <-time.After(d): case <-ctx.Done(): case <-changes: }":                    0,
		"t := time.NewTicker(d); for { select { case <-t.C: case <-ctx.Done(): } }":              0,
		"n *= 2; b = append(b, make([]byte, n))":                                                 0,
		"limit = max(smallest, min(wanted, 2*limit)); if netx.Wait(ctx, took) != nil { return }": 0,
	} {
		if got := ownWaits(t, "x.go", "package x\nfunc f() { "+text+" }\n"); len(got) != want {
			t.Errorf("%s: %q, want %d", text, got, want)
		}
	}
}
