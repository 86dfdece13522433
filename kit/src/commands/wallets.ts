import { Command, Option } from 'commander';
import { type Limits, WALLET_CHAINS, type Wallet, type WalletChain } from 'stablehooks/client';
import { sameAmount } from 'stablehooks/reconcile';
import { usageError } from '../io/errors.js';
import { EXIT, type ExitCode, interruptedExit, type Printer, toPlain } from '../io/output.js';
import { addAction, addServiceFlags, type CommandContext, collect } from '../io/settings.js';

interface LimitFlags {
  readonly perTx?: string;
  readonly daily?: string;
  readonly allow?: readonly string[];
}

interface CreateFlags {
  readonly agent: string;
  readonly label?: string;
  readonly chain: WalletChain;
  readonly perTx: string;
  readonly daily: string;
  readonly allow: readonly string[];
}

export function walletsCommand(): Command {
  return new Command('wallets').addCommand(createCommand()).addCommand(limitsCommand());
}

function createCommand(): Command {
  const command = new Command('create')
    .description('create a wallet for an agent')
    .requiredOption('--agent <id>', 'stable identifier of the agent')
    .option('--label <string>', 'label of the wallet')
    .addOption(
      new Option('--chain <name>', 'chain of the wallet').choices(WALLET_CHAINS).makeOptionMandatory(),
    )
    .requiredOption('--per-tx <amount>', 'limit per transaction')
    .requiredOption('--daily <amount>', 'limit per day')
    .option('--allow <target>', 'allowed target; can be repeated', collect, []);
  addServiceFlags(command);
  return addAction(command, create, [
    'stablehooks wallets create --agent agent-7 --chain base --per-tx 10.00 --daily 25.00 --allow 0x5af0…',
  ]);
}

async function create({ flags, settings, printer }: CommandContext<CreateFlags>) {
  const { agent: agentId, label, chain, allow } = flags;
  const client = await settings.client();
  const limits = { perTx: flags.perTx, daily: flags.daily };
  const input = { agentId, ...(label !== undefined && { label }), chain, limits, allowlist: allow };
  const wallet = await client.wallets.create(input);
  return printWallet(printer, wallet, { agentId, chain, limits, allowlist: allow });
}

function limitsCommand(): Command {
  const command = new Command('limits')
    .description("change a wallet's limits and allowlist")
    .argument('<id>', 'id of the wallet')
    .option('--per-tx <amount>', 'limit per transaction; requires --daily')
    .option('--daily <amount>', 'limit per day; requires --per-tx')
    .option('--allow <target>', 'allowed target; can be repeated; replaces the whole allowlist', collect);
  addServiceFlags(command);
  return addAction(command, limits, ['stablehooks wallets limits wal_01 --per-tx 20.00 --daily 50.00']);
}

async function limits({ args, flags, settings, printer }: CommandContext<LimitFlags>) {
  const limits = readLimits(flags);
  const { allow } = flags;
  if (limits === undefined && allow === undefined)
    throw usageError('Nothing to change. Pass --per-tx and --daily, --allow, or all three.');
  const client = await settings.client();
  const input = { ...(limits && { limits }), ...(allow && { allowlist: allow }) };
  const id = args[0] ?? '';
  const wallet = await client.wallets.updateLimits(id, input);
  return printWallet(printer, wallet, { id, ...input });
}

/** The service does not specify whether an omitted limit stays unchanged. */
function readLimits({ perTx, daily }: LimitFlags): Limits | undefined {
  if (perTx === undefined && daily === undefined) return undefined;
  if (perTx !== undefined && daily !== undefined) return { perTx, daily };
  throw usageError(
    'Pass --per-tx and --daily together: the service does not specify what happens to an omitted limit.',
  );
}

/** If stdout fails, prints the wallet on stderr, so that the id of a new wallet is not lost. */
async function printWallet(printer: Printer, wallet: Wallet, asked: Partial<Wallet>): Promise<ExitCode> {
  const { id, agentId, address, chain, balance, limits, allowlist } = wallet;
  const lines = [
    ['wallet', id],
    ['agent', agentId],
    ['address', `${address} (${chain})`],
    ['balance', balance],
    ['limits', `${limits.perTx} per transaction, ${limits.daily} per day`],
    ['allowed', allowlist.join(', ') || 'no targets'],
  ] as const;
  const text = lines.map(([name, value]) => `${name.padEnd(9)}${toPlain(value)}`).join('\n');
  printer.print({ text, data: wallet });
  const differing = findDiffering(wallet, asked);
  for (const name of differing) {
    printer.note(
      `The service returned a different ${name} than you requested. Check the wallet with the service before you use it.`,
    );
  }
  if (await printer.isPrinted()) return differing.length === 0 ? EXIT.good : EXIT.failed;
  printer.note(`The service carried out the request, but the output cannot be written:\n${text}`);
  return interruptedExit();
}

function findDiffering(wallet: Wallet, asked: Partial<Wallet>): readonly string[] {
  const { limits, allowlist, ...fields } = asked;
  const [granted, targets] = [[...wallet.allowlist].sort(), [...(allowlist ?? wallet.allowlist)].sort()];
  return [
    ...(['id', 'agentId', 'chain'] as const).filter(
      (name) => fields[name] !== undefined && fields[name] !== wallet[name],
    ),
    ...(['perTx', 'daily'] as const).filter(
      (name) => limits !== undefined && !sameAmount(limits[name], wallet.limits[name]),
    ),
    ...(targets.join('\n') === granted.join('\n') ? [] : ['allowlist']),
  ];
}
