package cli

import "github.com/alecthomas/kong"

// cli is the whole command line. Each command is in a file of its own.
type cli struct {
	JSON    bool        `name:"json" help:"Print the result as JSON."`
	Version versionFlag `name:"version" hidden:"" help:"Print the version."`

	Serve    serveCmd    `cmd:"" group:"begin" help:"Run the server."`
	Demo     demoCmd     `cmd:"" group:"begin" help:"Run a demo of all features in this terminal: no hardware, no account, under a minute."`
	Discover discoverCmd `cmd:"" group:"begin" help:"Find model servers, OpenClaw and speech programs that could be plugged in."`
	Relay    struct {
		Serve relayServeCmd `cmd:"" help:"Run a relay, through which servers at home are reached from everywhere."`
		Key   struct {
			Add    relayKeyAddCmd    `cmd:"" help:"Add a home at this relay and print its join code."`
			List   relayKeyListCmd   `cmd:"" help:"List the homes of this relay."`
			Revoke relayKeyRevokeCmd `cmd:"" help:"Remove a home from this relay."`
		} `cmd:"" help:"Homes that may use this relay."`
		Status relayStatusCmd `cmd:"" help:"Show, at home, the connections to relays."`
	} `cmd:"" group:"begin" help:"Being reached from everywhere."`

	User struct {
		Add    userAddCmd    `cmd:"" help:"Create an account."`
		List   userListCmd   `cmd:"" help:"List accounts."`
		Show   userShowCmd   `cmd:"" help:"Show an account: its limits, and the bots that it may ask."`
		Set    userSetCmd    `cmd:"" help:"Change what an account may do."`
		Invite userInviteCmd `cmd:"" help:"Make a link with which somebody chooses the password of an account."`
		Pause  userPauseCmd  `cmd:"" help:"Pause an account: it keeps everything, and does nothing."`
		Resume userResumeCmd `cmd:"" help:"End the pause of an account."`
		Passwd userPasswdCmd `cmd:"" help:"Set the password of an account."`
		Links  userLinksCmd  `cmd:"" help:"List as whom of the OpenID provider accounts may sign in."`
		Unlink userUnlinkCmd `cmd:"" help:"Remove a link to the OpenID provider."`

		RemoveSecondSteps userRemoveSecondStepsCmd `cmd:"" help:"Remove authenticator app, passkeys and recovery codes of an account, after they were lost."`
	} `cmd:"" group:"people" help:"Accounts."`
	Key struct {
		Add    keyAddCmd    `cmd:"" help:"Create a key for a program or for the glasses platform."`
		List   keyListCmd   `cmd:"" help:"List keys."`
		Rules  keyRulesCmd  `cmd:"" help:"Show or change the tool rules of a key."`
		Revoke keyRevokeCmd `cmd:"" help:"Revoke a key."`
	} `cmd:"" group:"people" help:"Keys."`
	OAuth struct {
		List   oauthListCmd   `cmd:"" help:"List the programs that were let in by OAuth."`
		Revoke oauthRevokeCmd `cmd:"" help:"End the access of a program."`
		Client struct {
			Add  oauthClientAddCmd  `cmd:"" help:"Add a program that cannot register itself."`
			List oauthClientListCmd `cmd:"" help:"List the programs that were added."`
			Rm   oauthClientRmCmd   `cmd:"" help:"Remove a program, and end its access."`
		} `cmd:"" help:"Programs that cannot register themselves."`
	} `cmd:"" group:"people" help:"Programs that people let in by OAuth." name:"oauth"`

	Bot struct {
		Add    botAddCmd    `cmd:"" help:"Add a bot."`
		List   botListCmd   `cmd:"" help:"List bots and their connection status."`
		Show   botShowCmd   `cmd:"" help:"Show a bot, its wearers, its last turns, and the values to enter at the glasses platform."`
		Set    botSetCmd    `cmd:"" help:"Change a bot."`
		Share  botShareCmd  `cmd:"" help:"Let other accounts ask a bot."`
		Rm     botRmCmd     `cmd:"" help:"Remove a bot with its bindings, conversations and keys."`
		Rotate botRotateCmd `cmd:"" help:"Create a new token for a bot that connects to this server."`
	} `cmd:"" group:"bots" help:"Bots."`
	Bind   bindCmd   `cmd:"" group:"bots" help:"Bind glasses to a bot with a QR code in this terminal or a six-digit code."`
	Unbind unbindCmd `cmd:"" group:"bots" help:"Unbind glasses from a bot."`

	Device struct {
		List       deviceListCmd       `cmd:"" help:"List devices and their status."`
		Show       deviceShowCmd       `cmd:"" help:"Show a device and its status."`
		Approve    deviceApproveCmd    `cmd:"" help:"Approve a device by its pairing code."`
		Bind       deviceBindCmd       `cmd:"" help:"Set the bot that answers a device."`
		Rename     deviceRenameCmd     `cmd:"" help:"Rename a device."`
		Set        deviceSetCmd        `cmd:"" help:"Set the transport of a device."`
		Voice      deviceVoiceCmd      `cmd:"" help:"Show or set how a device hears and speaks."`
		Recordings deviceRecordingsCmd `cmd:"" help:"List, export or delete what is recorded of a device."`
		Rm         deviceRmCmd         `cmd:"" help:"Remove a device."`
		Tools      deviceToolsCmd      `cmd:"" help:"List the tools of a device."`
		Call       deviceCallCmd       `cmd:"" help:"Call a tool of a device."`
		Display    deviceDisplayCmd    `cmd:"" help:"Show a text on a device."`
		Alert      deviceAlertCmd      `cmd:"" help:"Show an alert on a device."`
		Say        deviceSayCmd        `cmd:"" help:"Have a device say a text aloud."`
		Timers     deviceTimersCmd     `cmd:"" help:"List, set or cancel the timers and reminders of a device."`
		Play       devicePlayCmd       `cmd:"" help:"Play a sound on a device."`
		Music      deviceMusicCmd      `cmd:"" help:"Play music on a device, pause it, or end it."`
		Stop       deviceStopCmd       `cmd:"" help:"Stop speech and playback on a device."`
		Record     deviceRecordCmd     `cmd:"" help:"Record a few seconds from a device's microphone."`
		Listen     deviceListenCmd     `cmd:"" help:"Stream audio from a device's microphone until Ctrl-C."`
		Watch      deviceWatchCmd      `cmd:"" help:"Print device notifications until Ctrl-C."`
		Reboot     deviceRebootCmd     `cmd:"" help:"Reboot a device."`
	} `cmd:"" group:"devices" help:"Voice boards."`

	Voice struct {
		Setup   voiceSetupCmd   `cmd:"" help:"Set up hearing, speaking and a bot from one key, or from addresses."`
		Usage   voiceUsageCmd   `cmd:"" help:"Show what boards have used of speech engines."`
		Latency voiceLatencyCmd `cmd:"" help:"Show how fast spoken questions are answered."`
		Engine  struct {
			Add   voiceEngineAddCmd   `cmd:"" help:"Add a speech engine."`
			List  voiceEngineListCmd  `cmd:"" help:"List speech engines and their status."`
			Show  voiceEngineShowCmd  `cmd:"" help:"Show a speech engine and its settings."`
			Set   voiceEngineSetCmd   `cmd:"" help:"Change a speech engine, or turn it on or off."`
			Rm    voiceEngineRmCmd    `cmd:"" help:"Remove a speech engine."`
			Move  voiceEngineMoveCmd  `cmd:"" help:"Change the order of the speech engines."`
			Check voiceEngineCheckCmd `cmd:"" help:"Check a speech engine."`
			Try   voiceEngineTryCmd   `cmd:"" help:"Speak a text, or understand a sound file."`
		} `cmd:"" help:"Speech engines."`
	} `cmd:"" group:"devices" help:"Talking with boards."`

	Node struct {
		List     nodeListCmd     `cmd:"" help:"List nodes and their connection status."`
		Describe nodeDescribeCmd `cmd:"" help:"Show a node, its commands and its tools."`
		Invoke   nodeInvokeCmd   `cmd:"" help:"Run a command on a node."`
		Rename   nodeRenameCmd   `cmd:"" help:"Rename a node."`
		Policy   nodePolicyCmd   `cmd:"" help:"Show or change which programs a computer runs."`
		Rm       nodeRmCmd       `cmd:"" help:"Remove a node."`
	} `cmd:"" group:"devices" help:"OpenClaw nodes."`
	Pair struct {
		List    pairListCmd    `cmd:"" help:"List pending pairing requests."`
		Approve pairApproveCmd `cmd:"" help:"Approve a pairing request."`
		Reject  pairRejectCmd  `cmd:"" help:"Reject a pairing request."`
		Invite  pairInviteCmd  `cmd:"" help:"Make a setup code that pairs one node."`
		Codes   pairCodesCmd   `cmd:"" help:"List valid setup codes."`
		Cancel  pairCancelCmd  `cmd:"" help:"Cancel a setup code."`
		Devices pairDevicesCmd `cmd:"" help:"List paired devices and their tokens."`
		Revoke  pairRevokeCmd  `cmd:"" help:"Revoke the token of a paired device."`
	} `cmd:"" group:"devices" help:"Pairing of nodes and operators."`
	Approval struct {
		List  approvalListCmd  `cmd:"" help:"List calls that wait for your approval."`
		Show  approvalShowCmd  `cmd:"" help:"Show a call that waits, with its arguments."`
		Allow approvalAllowCmd `cmd:"" help:"Allow a call that waits."`
		Deny  approvalDenyCmd  `cmd:"" help:"Refuse a call that waits."`
	} `cmd:"" group:"devices" help:"Calls of tools that wait for your approval."`
	Shim struct {
		Add    shimAddCmd    `cmd:"" help:"Connect your boards to an OpenClaw gateway as nodes."`
		List   shimListCmd   `cmd:"" help:"List the OpenClaw gateways of your boards."`
		Status shimStatusCmd `cmd:"" help:"Show the status of the nodes at a gateway, and what its owner has to do."`
		Set    shimSetCmd    `cmd:"" help:"Change the connection to a gateway."`
		Rm     shimRmCmd     `cmd:"" help:"Remove the connection to a gateway."`
	} `cmd:"" group:"devices" help:"Connections to OpenClaw gateways."`
	Connector struct {
		Openclaw connectorOpenclawCmd `cmd:"" help:"Write the plugin with which an OpenClaw connects to this server and answers."`
	} `cmd:"" group:"devices" help:"Plugins for other programs."`

	Upstream struct {
		Add     upstreamAddCmd     `cmd:"" help:"Add a tool server, or a service that calls your tools."`
		Search  upstreamSearchCmd  `cmd:"" help:"Search the registry for tool servers."`
		List    upstreamListCmd    `cmd:"" help:"List upstreams and their connection status."`
		Show    upstreamShowCmd    `cmd:"" help:"Show an upstream, its settings and its connection."`
		Set     upstreamSetCmd     `cmd:"" help:"Change an upstream."`
		Rm      upstreamRmCmd      `cmd:"" help:"Remove an upstream."`
		Rotate  upstreamRotateCmd  `cmd:"" help:"Create a new token for an upstream that connects to this server."`
		Diff    upstreamDiffCmd    `cmd:"" help:"Show what a tool server has changed since you approved it."`
		Approve upstreamApproveCmd `cmd:"" help:"Approve what a tool server has changed."`
		Signin  upstreamSignInCmd  `cmd:"" help:"Sign in to a tool server that wants it, or out."`
		Share   upstreamShareCmd   `cmd:"" help:"Share a tool server with others, each of whom signs in alone."`
		Check   upstreamCheckCmd   `cmd:"" help:"Test the connection to an upstream and list its tools."`
	} `cmd:"" group:"tools" help:"Tool servers."`
	Tool struct {
		List     toolListCmd     `cmd:"" help:"List available tools."`
		Show     toolShowCmd     `cmd:"" help:"Show a tool and its arguments."`
		Call     toolCallCmd     `cmd:"" help:"Call a tool."`
		Allow    toolAllowCmd    `cmd:"" help:"Allow dangerous tools."`
		Deny     toolDenyCmd     `cmd:"" help:"Deny tools to all programs and bots."`
		Reset    toolResetCmd    `cmd:"" help:"Remove a tool rule."`
		Rules    toolRulesCmd    `cmd:"" help:"List tool rules."`
		Rename   toolRenameCmd   `cmd:"" help:"Give a tool another name."`
		Describe toolDescribeCmd `cmd:"" help:"Give a tool another description or title."`
		Original toolOriginalCmd `cmd:"" help:"Give a tool back its original name and texts."`
		Words    toolWordsCmd    `cmd:"" help:"List the tools that you named or described."`
		Set      struct {
			Add  toolSetAddCmd  `cmd:"" help:"Put tools together under a name."`
			List toolSetListCmd `cmd:"" help:"List the sets of tools."`
			Rm   toolSetRmCmd   `cmd:"" help:"Remove a set of tools, or tools of it."`
		} `cmd:"" help:"Named sets of tools."`
	} `cmd:"" group:"tools" help:"Tools."`
	Mcp struct {
		Relay  mcpRelayCmd  `cmd:"" help:"Run an MCP server on standard input and output that forwards to /mcp of a server."`
		Bundle mcpBundleCmd `cmd:"" help:"Write a bundle (.mcpb) with which Claude Desktop uses your tools, without Node.js."`
	} `cmd:"" group:"tools" help:"Tools for desktop programs."`
	Calls callsCmd `cmd:"" group:"tools" help:"List tool calls with caller and outcome."`

	Learn struct {
		Add      learnAddCmd      `cmd:"" help:"Add knowledge points."`
		List     learnListCmd     `cmd:"" help:"List or search knowledge points."`
		Show     learnShowCmd     `cmd:"" help:"Show a knowledge point, its schedule and its history."`
		Edit     learnEditCmd     `cmd:"" help:"Change a knowledge point."`
		Rm       learnRmCmd       `cmd:"" help:"Delete or restore knowledge points."`
		Bulk     learnBulkCmd     `cmd:"" help:"Change all knowledge points that match a query, or undo the last such change."`
		Review   learnReviewCmd   `cmd:"" help:"Review due knowledge points in this terminal."`
		Undo     learnUndoCmd     `cmd:"" help:"Undo the last review."`
		Stats    learnStatsCmd    `cmd:"" help:"Show learning statistics and upcoming reviews."`
		Fit      learnFitCmd      `cmd:"" help:"Fit the memory model to your reviews."`
		Simulate learnSimulateCmd `cmd:"" help:"Simulate what another retention would cost."`
		Import   learnImportCmd   `cmd:"" help:"Import knowledge points from a file."`
		Export   learnExportCmd   `cmd:"" help:"Export knowledge points to a file."`
		Set      learnSetCmd      `cmd:"" help:"Show or change the learning settings."`
		Deck     learnDeckCmd     `cmd:"" help:"List decks, or change a deck."`
		Mcp      learnMcpCmd      `cmd:"" help:"Run an MCP server on standard input and output, for desktop programs."`
	} `cmd:"" group:"learn" help:"Knowledge points and their reviews."`

	Ask      askCmd `cmd:"" group:"try" help:"Ask a bot and stream its answer."`
	Simulate struct {
		Glasses simulateGlassesCmd `cmd:"" help:"Simulate glasses against any server."`
		Home    simulateHomeCmd    `cmd:"" help:"Simulate a tool server with a thermometer and a lamp."`
		Speech  simulateSpeechCmd  `cmd:"" help:"Simulate a speech service with OpenAI's interface."`
		Xiaozhi simulateXiaozhiCmd `cmd:"" help:"Simulate one or more XiaoZhi voice boards against any server."`
		Node    simulateNodeCmd    `cmd:"" help:"Simulate one or more OpenClaw nodes against any server."`
	} `cmd:"" group:"try" help:"Simulated devices."`

	Service struct {
		Install   serviceInstallCmd   `cmd:"" help:"Install and start the server as a service of this machine."`
		Status    serviceStatusCmd    `cmd:"" help:"Show whether the service is installed and runs."`
		Logs      serviceLogsCmd      `cmd:"" help:"Show the log of the service."`
		Uninstall serviceUninstallCmd `cmd:"" help:"Stop and remove the service."`
		Run       serviceRunCmd       `cmd:"" hidden:"" help:"Run a command as a service does."`
		Unit      serviceUnitCmd      `cmd:"" hidden:"" help:"Print the systemd unit of the packages."`
	} `cmd:"" group:"care" help:"The server as a service."`
	Upgrade struct {
		Check upgradeCheckCmd `cmd:"" help:"See whether there is a newer release."`
	} `cmd:"" group:"care" help:"Newer releases."`
	Config struct {
		Check   configCheckCmd   `cmd:"" help:"Validate the settings."`
		Default configDefaultCmd `cmd:"" help:"Print a configuration file that explains every setting."`
		Doc     configDocCmd     `cmd:"" help:"Print a table of all settings as Markdown."`
	} `cmd:"" group:"care" help:"Settings."`
	Backup struct {
		Create  backupCreateCmd  `cmd:"" help:"Write a backup of all data to a file."`
		Restore backupRestoreCmd `cmd:"" help:"Restore a backup at the next start."`
	} `cmd:"" group:"care" help:"Backups."`
	Audit struct {
		Verify auditVerifyCmd `cmd:"" help:"Verify that tool calls and the journal were not modified."`
	} `cmd:"" group:"care" help:"The audit trail."`
	Secret struct {
		Show   secretShowCmd   `cmd:"" help:"Show the valid secrets, and since when they are valid."`
		Rotate secretRotateCmd `cmd:"" help:"Rotate the installation's secret and re-encrypt stored credentials."`
		Forget secretForgetCmd `cmd:"" help:"Drop all previous secrets now."`
	} `cmd:"" group:"care" help:"The secret of the installation."`
	Drain       drainCmd      `cmd:"" group:"care" help:"Drain a server before it is stopped: move its devices to other instances."`
	Doctor      doctorCmd     `cmd:"" group:"care" help:"Check the installation and suggest fixes."`
	ShowVersion versionCmd    `cmd:"" name:"version" group:"care" help:"Print the version."`
	Help        helpCmd       `cmd:"" group:"care" help:"Show the help of a command."`
	Completion  completionCmd `cmd:"" group:"care" help:"Print a shell completion script."`
	Man         manCmd        `cmd:"" group:"care" help:"Print the manual page, or write all of them to a folder."`
}

var commandGroups = kong.ExplicitGroups([]kong.Group{
	{Key: "begin", Title: "Get started:"},
	{Key: "people", Title: "Accounts and keys:"},
	{Key: "bots", Title: "Bots and glasses:"},
	{Key: "devices", Title: "Devices:"},
	{Key: "tools", Title: "Tools:"},
	{Key: "learn", Title: "Learn:"},
	{Key: "try", Title: "Try out:"},
	{Key: "care", Title: "Maintenance:"},
})
