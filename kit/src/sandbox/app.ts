/** The sandbox over HTTP: what every request passes through, and where each refusal becomes an answer. */
import { Hono } from 'hono';
import { methodNotAllowed } from 'hono/method-not-allowed';
import { controlRoutes } from './control-routes.js';
import type { FaultSource } from './faults.js';
import type { Feed } from './feed.js';
import { SandboxError, toProblem } from './problem.js';
import { createJsonReader } from './request-body.js';
import type { SandboxOperations } from './sandbox.js';
import type { Answer, Env } from './server.js';
import { type Service, serviceRoutes } from './service-routes.js';

interface AppParts {
  readonly sandbox: SandboxOperations;
  readonly service: Service;
  readonly faults: FaultSource;
  readonly feed: Feed;
}

export interface AppOptions {
  readonly token: string;
  readonly maxBodyBytes: number;
  readonly maxLimit: number;
}

export function createApp(parts: AppParts, { token, maxBodyBytes, maxLimit }: AppOptions): Answer {
  const app = new Hono<Env>();
  app.use(async (context, next) => {
    const given = /^Bearer +(\S+) *$/i.exec(context.req.header('authorization') ?? '')?.[1];
    if (given === token) return next();
    const problem = new SandboxError(
      'ERR_SANDBOX_TOKEN',
      'Send `Authorization: Bearer <token>` with the token of this sandbox.',
    );
    return toProblem(problem, { 'www-authenticate': 'Bearer' });
  });
  app.use(
    methodNotAllowed({
      app,
      onMethodNotAllowed: (_, methods) => {
        const allow = methods.join(', ');
        return toProblem(new SandboxError('ERR_SANDBOX_METHOD', `This path takes ${allow}.`), { allow });
      },
    }),
  );
  const readJson = createJsonReader({ maxBodyBytes });
  app.route('/v1', serviceRoutes(parts.service, { faults: parts.faults, maxLimit, readJson }));
  app.route('/sandbox', controlRoutes(parts.sandbox, { feed: parts.feed, readJson }));
  app.notFound(() =>
    toProblem(
      new SandboxError(
        'ERR_SANDBOX_NOT_FOUND',
        'There is nothing at this path. See the README for those that are.',
      ),
    ),
  );
  app.onError((error) => {
    if (error instanceof SandboxError) return toProblem(error);
    console.error(error);
    return toProblem(new SandboxError('ERR_SANDBOX_FAILED', 'The sandbox itself failed; its log says why.'));
  });
  return (request, bindings) => app.fetch(request, bindings);
}
