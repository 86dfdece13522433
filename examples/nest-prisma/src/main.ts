import 'reflect-metadata';
import { Controller, Get, Module, ServiceUnavailableException } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { health } from 'stablehooks/health';
import { StablehooksModule } from 'stablehooks/nest';
import { CatchUp } from './catch-up.js';
import { Database, DatabaseModule } from './database.js';
import { Ledger, Movements } from './movements.js';

@Controller('healthz')
class Health {
  constructor(private readonly database: Database) {}

  @Get()
  async check() {
    const { healthy } = await health(this.database.inbox, { requirePoll: true });
    if (!healthy) throw new ServiceUnavailableException({ healthy });
    return { healthy };
  }
}

@Module({
  imports: [
    DatabaseModule,
    StablehooksModule.forRootAsync({
      inject: [Database],
      useFactory: ({ inbox }: Database) => ({
        path: '/hooks',
        secret: process.env.STABLEHOOKS_SECRET ?? '',
        signature: { header: 'X-SERVICE-Signature', encoding: 'hex' },
        inbox,
        start: true,
      }),
    }),
  ],
  controllers: [Health],
  providers: [Ledger, Movements, CatchUp],
})
class AppModule {}

const app = await NestFactory.create(AppModule);
app.enableShutdownHooks();
const { PORT = '3000' } = process.env;
await app.listen(Number(PORT));
console.log(`Listening on http://localhost:${PORT}/hooks`);
