package main

import "github.com/alecthomas/kong"

// cli is the whole command line. Each command is in a file of its own.
type cli struct {
	JSON    bool        `name:"json" help:"Print the result as JSON."`
	Version versionFlag `name:"version" hidden:"" help:"Print the version."`

	Serve serveCmd `cmd:"" group:"begin" help:"Run the server."`
	Demo  demoCmd  `cmd:"" group:"begin" help:"See the whole story in this terminal: no hardware, no account, under a minute."`

	User struct {
		Add    userAddCmd    `cmd:"" help:"Open an account."`
		List   userListCmd   `cmd:"" help:"List the people."`
		Passwd userPasswdCmd `cmd:"" help:"Set somebody's password."`
	} `cmd:"" group:"people" help:"People."`
	Key struct {
		Add    keyAddCmd    `cmd:"" help:"Make a key for a program or for the glasses' platform."`
		List   keyListCmd   `cmd:"" help:"List the keys."`
		Rules  keyRulesCmd  `cmd:"" help:"Show or change which tools a key may call."`
		Revoke keyRevokeCmd `cmd:"" help:"End a key for good."`
	} `cmd:"" group:"people" help:"Keys."`

	Bot struct {
		Add    botAddCmd    `cmd:"" help:"Plug in a bot."`
		List   botListCmd   `cmd:"" help:"List the bots and whether they are connected."`
		Show   botShowCmd   `cmd:"" help:"Show a bot, its wearers, its last turns, and what to type into the glasses' platform."`
		Set    botSetCmd    `cmd:"" help:"Change a bot."`
		Rm     botRmCmd     `cmd:"" help:"Remove a bot and all that belongs to it."`
		Rotate botRotateCmd `cmd:"" help:"Give a bot that connects a new token."`
	} `cmd:"" group:"bots" help:"Bots."`
	Bind   bindCmd   `cmd:"" group:"bots" help:"Bind glasses to a bot by a QR code in this terminal, or by six digits."`
	Unbind unbindCmd `cmd:"" group:"bots" help:"Unbind glasses from a bot."`

	Device struct {
		List    deviceListCmd    `cmd:"" help:"List the devices and whether they are awake."`
		Show    deviceShowCmd    `cmd:"" help:"Show a device and how it is."`
		Approve deviceApproveCmd `cmd:"" help:"Make the device that shows a code yours."`
		Bind    deviceBindCmd    `cmd:"" help:"Say which bot answers a device."`
		Rename  deviceRenameCmd  `cmd:"" help:"Call a device something else."`
		Set     deviceSetCmd     `cmd:"" help:"Say how a device connects."`
		Rm      deviceRmCmd      `cmd:"" help:"Remove a device."`
		Tools   deviceToolsCmd   `cmd:"" help:"List what a device can do."`
		Call    deviceCallCmd    `cmd:"" help:"Call a tool of a device."`
		Display deviceDisplayCmd `cmd:"" help:"Show a text on a device."`
		Alert   deviceAlertCmd   `cmd:"" help:"Alert whoever is near a device."`
		Play    devicePlayCmd    `cmd:"" help:"Play a sound on a device."`
		Stop    deviceStopCmd    `cmd:"" help:"Stop what a device says or plays."`
		Record  deviceRecordCmd  `cmd:"" help:"Record what a device hears for some seconds."`
		Listen  deviceListenCmd  `cmd:"" help:"Write what a device hears until Ctrl-C."`
		Watch   deviceWatchCmd   `cmd:"" help:"Print what devices tell by themselves until Ctrl-C."`
		Reboot  deviceRebootCmd  `cmd:"" help:"Have a device start again."`
	} `cmd:"" group:"devices" help:"Voice boards."`

	Node struct {
		List     nodeListCmd     `cmd:"" help:"List the nodes and whether they are connected."`
		Describe nodeDescribeCmd `cmd:"" help:"Show a node, its commands and its tools."`
		Invoke   nodeInvokeCmd   `cmd:"" help:"Call a command of a node."`
		Rename   nodeRenameCmd   `cmd:"" help:"Call a node something else."`
		Rm       nodeRmCmd       `cmd:"" help:"Remove a node."`
	} `cmd:"" group:"devices" help:"OpenClaw's nodes."`
	Pair struct {
		List    pairListCmd    `cmd:"" help:"List who waits to be let in, or to run something."`
		Approve pairApproveCmd `cmd:"" help:"Let a program in, or a node run what it can."`
		Reject  pairRejectCmd  `cmd:"" help:"Refuse who waits."`
	} `cmd:"" group:"devices" help:"Nodes and operators that wait to be approved."`
	Shim struct {
		Add    shimAddCmd    `cmd:"" help:"Join your boards to an OpenClaw gateway, as its nodes."`
		List   shimListCmd   `cmd:"" help:"List the gateways that your boards have joined."`
		Status shimStatusCmd `cmd:"" help:"Show how the nodes at a gateway are, and what its owner has to do."`
		Set    shimSetCmd    `cmd:"" help:"Change how a gateway is joined."`
		Rm     shimRmCmd     `cmd:"" help:"Leave a gateway."`
	} `cmd:"" group:"devices" help:"OpenClaw gateways of others."`

	Upstream struct {
		Add    upstreamAddCmd    `cmd:"" help:"Plug in a server of tools, or a service that calls yours."`
		List   upstreamListCmd   `cmd:"" help:"List the upstreams and whether they are connected."`
		Show   upstreamShowCmd   `cmd:"" help:"Show an upstream, its settings and its connection."`
		Set    upstreamSetCmd    `cmd:"" help:"Change an upstream."`
		Rm     upstreamRmCmd     `cmd:"" help:"Remove an upstream."`
		Rotate upstreamRotateCmd `cmd:"" help:"Give an upstream that connects here a new token."`
		Check  upstreamCheckCmd  `cmd:"" help:"Connect to an upstream once and say what is there."`
	} `cmd:"" group:"tools" help:"Servers of tools."`
	Tool struct {
		List  toolListCmd  `cmd:"" help:"List the tools that may be used."`
		Show  toolShowCmd  `cmd:"" help:"Show a tool and what arguments it takes."`
		Call  toolCallCmd  `cmd:"" help:"Call a tool."`
		Allow toolAllowCmd `cmd:"" help:"Allow dangerous tools."`
		Deny  toolDenyCmd  `cmd:"" help:"Deny tools to everybody."`
		Reset toolResetCmd `cmd:"" help:"Take such a decision back."`
		Rules toolRulesCmd `cmd:"" help:"List those decisions."`
	} `cmd:"" group:"tools" help:"Tools."`
	Calls callsCmd `cmd:"" group:"tools" help:"Show who called which tool, and what came of it."`

	Learn struct {
		Add    learnAddCmd    `cmd:"" help:"Add knowledge points."`
		List   learnListCmd   `cmd:"" help:"List or search knowledge points."`
		Show   learnShowCmd   `cmd:"" help:"Show a knowledge point, its plan and its history."`
		Edit   learnEditCmd   `cmd:"" help:"Change a knowledge point."`
		Rm     learnRmCmd     `cmd:"" help:"Delete knowledge points, or bring them back."`
		Review learnReviewCmd `cmd:"" help:"Review what is due, in this terminal."`
		Undo   learnUndoCmd   `cmd:"" help:"Take the last review back."`
		Stats  learnStatsCmd  `cmd:"" help:"Show what is left, what was done, and what is coming."`
		Import learnImportCmd `cmd:"" help:"Import knowledge points from a file."`
		Export learnExportCmd `cmd:"" help:"Write knowledge points to a file."`
		Set    learnSetCmd    `cmd:"" help:"Show or change how you learn."`
		Deck   learnDeckCmd   `cmd:"" help:"List decks, or change one."`
		Mcp    learnMcpCmd    `cmd:"" help:"Be an MCP server on standard input and output, for desktop programs."`
	} `cmd:"" group:"learn" help:"Knowledge points and their reviews."`

	Ask      askCmd `cmd:"" group:"try" help:"Ask a bot and stream its answer."`
	Simulate struct {
		Glasses simulateGlassesCmd `cmd:"" help:"Act as a pair of glasses against any server."`
		Home    simulateHomeCmd    `cmd:"" help:"Act as a tool server with a thermometer and a lamp."`
		Xiaozhi simulateXiaozhiCmd `cmd:"" help:"Act as a XiaoZhi voice board, or as many, against any server."`
		Node    simulateNodeCmd    `cmd:"" help:"Act as a node of OpenClaw's, or as many, against any server."`
	} `cmd:"" group:"try" help:"Simulated devices."`

	Config struct {
		Check   configCheckCmd   `cmd:"" help:"Say what is wrong with the settings."`
		Default configDefaultCmd `cmd:"" help:"Print a configuration file that explains every setting."`
		Doc     configDocCmd     `cmd:"" help:"Print a table of all settings as Markdown."`
	} `cmd:"" group:"care" help:"Settings."`
	Backup struct {
		Create  backupCreateCmd  `cmd:"" help:"Write everything into one file."`
		Restore backupRestoreCmd `cmd:"" help:"Have the next start restore such a file."`
	} `cmd:"" group:"care" help:"Backups."`
	Audit struct {
		Verify auditVerifyCmd `cmd:"" help:"Check whether calls and the journal are as they were written."`
	} `cmd:"" group:"care" help:"The audit trail."`
	Secret struct {
		Show   secretShowCmd   `cmd:"" help:"Show which secrets hold, and since when."`
		Rotate secretRotateCmd `cmd:"" help:"Give the installation another secret, and seal everything anew."`
		Forget secretForgetCmd `cmd:"" help:"Drop the secrets from before at once."`
	} `cmd:"" group:"care" help:"The secret of the installation."`
	Drain       drainCmd      `cmd:"" group:"care" help:"Send the devices of a server to the other instances, before it is stopped."`
	Doctor      doctorCmd     `cmd:"" group:"care" help:"Check everything and say what to do."`
	ShowVersion versionCmd    `cmd:"" name:"version" group:"care" help:"Print the version."`
	Help        helpCmd       `cmd:"" group:"care" help:"Explain a command."`
	Completion  completionCmd `cmd:"" group:"care" help:"Print a script that completes commands in your shell."`
}

var commandGroups = kong.ExplicitGroups([]kong.Group{
	{Key: "begin", Title: "Begin:"},
	{Key: "people", Title: "People and keys:"},
	{Key: "bots", Title: "Bots and glasses:"},
	{Key: "devices", Title: "Devices:"},
	{Key: "tools", Title: "Tools:"},
	{Key: "learn", Title: "Learn:"},
	{Key: "try", Title: "Try:"},
	{Key: "care", Title: "Look after it:"},
})
